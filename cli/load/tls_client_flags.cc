// SPDX-License-Identifier: Apache-2.0
#include "cli/load/tls_client_flags.h"

namespace rubato::cli {

// The names are those of redis-benchmark.
void add_tls_client_options(CommandLine& command, TlsClientFlags& flags, const std::string& about) {
  command.add_flag("--tls", flags.wanted, "Connect with TLS, 1.2 or 1.3; " + about);
  TlsClientFiles& files = flags.files;
  const auto add = [&](const char* name, std::string& value, const char* what, const char* text) {
    command.add_text(name, value, text).placeholder(what).marks(flags.given);
  };
  add("--cacert", files.ca_cert_file, "FILE",
      "Certificates in PEM form of the authorities that may have signed the server's; default: "
      "those of the machine");
  add("--cert", files.cert_file, "FILE",
      "Certificate to show to the server, in PEM form, with the chain behind it");
  add("--key", files.key_file, "FILE",
      "Private key of that certificate in PEM form, not encrypted");
  add("--sni", files.server_name, "HOST",
      "Name that the server's certificate has; default: the host that is connected to");
  command.add_flag("--insecure", files.insecure, "Take any certificate of the server");
}

std::unique_ptr<TlsConnector> open_tls_client(const TlsClientFlags& flags,
                                              const std::string& host) {
  if (!flags.wanted) {
    if (flags.given || flags.files.insecure) {
      bad_value("--cacert, --cert, --key, --sni, --insecure", "need --tls");
    }
    return nullptr;
  }
  TlsClientFiles files = flags.files;
  if (files.server_name.empty()) files.server_name = host;
  auto opened = rubato::open_tls_client(files);
  if (!opened.ok()) {
    const size_t name = opened.error().find(": ");
    bad_value("--" + opened.error().substr(0, name), opened.error().substr(name + 2));
  }
  return std::move(*opened);
}

}  // namespace rubato::cli
