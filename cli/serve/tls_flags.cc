// SPDX-License-Identifier: Apache-2.0
#include "cli/serve/tls_flags.h"

#include <sstream>

#include "base/log.h"
#include "cli/serve/serve_flags.h"

namespace rubato::cli {
namespace {

Status read_versions(const std::string& text, TlsFiles& files) {
  std::istringstream words(text);
  files.tls_1_2 = files.tls_1_3 = false;
  for (std::string word; words >> word;) {
    if (word != "TLSv1.2" && word != "TLSv1.3") {
      return Error{"takes TLSv1.2, TLSv1.3, or both with a space between them; not '" + word + "'"};
    }
    (word == "TLSv1.2" ? files.tls_1_2 : files.tls_1_3) = true;
  }
  if (files.tls_1_2 || files.tls_1_3) return Done{};
  return Error{"takes TLSv1.2, TLSv1.3, or both with a space between them"};
}

}  // namespace

void add_tls_options(CommandLine& command, TlsOptions& options) {
  command
      .add_integer("--tls-port", options.port, 0, 65535,
                   "Port that speaks RESP over TLS, 1.2 or later; 0 = any free one; none by "
                   "default. With it, --port 0 = no port without TLS")
      .default_text("");
  command.add_text("--tls-cert-file", options.files.cert_file,
                   "Certificate of the server in PEM form, with the chain behind it; SIGHUP loads "
                   "the files of TLS again")
      .placeholder("FILE");
  command.add_text("--tls-key-file", options.files.key_file,
                   "Private key of that certificate in PEM form, not encrypted")
      .placeholder("FILE");
  command.add_text("--tls-ca-cert-file", options.files.ca_cert_file,
                   "Certificates in PEM form of the authorities that sign those of clients")
      .placeholder("FILE");
  command.add_choice("--tls-auth-clients", options.auth_clients, {"yes", "no", "optional"},
                     "yes = clients must show a certificate of such an authority; optional = it is "
                     "checked if they show one; no = they are not asked");
  command
      .add_parsed("--tls-protocols", "VERSIONS",
                  [&options](const std::string& text) {
                    return read_versions(text, options.files);
                  },
                  "Versions that are spoken, of TLSv1.2 and TLSv1.3, with spaces between them")
      .default_text("TLSv1.2 TLSv1.3");
  command.add_text("--tls-ciphers", options.files.ciphers,
                   "Ciphers of TLS 1.2, as `openssl ciphers` takes them; OpenSSL's choice if empty")
      .placeholder("LIST");
  command.add_text("--tls-ciphersuites", options.files.ciphersuites,
                   "Cipher suites of TLS 1.3, with colons between them; OpenSSL's choice if empty")
      .placeholder("LIST");
  command.add_choice("--tls-rpc", options.rpc, {"yes", "no"}, "Whether --rpc-port has TLS");
  command.add_choice("--tls-metrics", options.metrics, {"yes", "no"},
                     "Whether --metrics-port has TLS, which is HTTPS");
}

TlsFiles files_of(const TlsOptions& options) {
  TlsFiles files = options.files;
  files.clients = options.auth_clients == "yes"        ? TlsClients::kMust
                  : options.auth_clients == "optional" ? TlsClients::kMay
                                                       : TlsClients::kNeedNot;
  return files;
}

Result<std::unique_ptr<TlsServer>> open_tls(const TlsOptions& options) {
  if (!options.wanted()) return std::unique_ptr<TlsServer>();
  auto opened = rubato::open_tls(files_of(options));
  if (!opened.ok()) return option_error(opened.error());
  return opened;
}

void reload_tls(Reloader& reloader, TlsServer& server,
                const TlsOptions& (*options_of)(const ServeProgram& loaded)) {
  const auto load = [&server, options_of](const ServeProgram& loaded) -> Status {
    const Status reloaded = server.reload(files_of(options_of(loaded)));
    return reloaded.ok() ? reloaded : option_error(reloaded.error());
  };
  for (const char* option :
       {"tls-cert-file", "tls-key-file", "tls-ca-cert-file", "tls-auth-clients", "tls-protocols",
        "tls-ciphers", "tls-ciphersuites"}) {
    reloader.can_apply(option, load);
  }
  reloader.each_time([load](const ServeProgram& loaded) {
    const Status done = load(loaded);
    if (done.ok()) log_line(LogLevel::kInfo, LogEvent::kReload, "the files of TLS are read again");
    return done;
  });
}

void expose(OpenMetrics& out, const TlsStats& stats) {
  out.family("rubato_tls_handshakes", "counter", "TLS handshakes completed.");
  out.counter(stats.handshakes);
  out.family("rubato_tls_handshakes_failed", "counter",
             "Connections to ports with TLS that ended without a handshake.");
  out.counter(stats.failed);
}

}  // namespace rubato::cli
