// SPDX-License-Identifier: Apache-2.0
//
// The TlsServer by OpenSSL: TLS 1.2 and 1.3. Clients may
// resume sessions by tickets, which a reload makes worthless, as it does the old certificates.
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>

#include <cerrno>
#include <cstring>
#include <mutex>

#include "datapath/tcp_socket.h"
#include "tls/openssl_session.h"
#include "tls/tls_server.h"

namespace rubato {
namespace {

using ContextPtr = std::shared_ptr<SSL_CTX>;

constexpr std::string_view kSessionName = "rubato";

Error about(const char* option, const std::string& text) {
  return Error{std::string(option) + ": " + text};
}

Status check_file(const char* option, const std::string& file, const char* what) {
  if (file.empty()) return about(option, std::string("takes the name of a file with ") + what);
  const Fd opened(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (opened.valid()) return Done{};
  return about(option, "cannot read '" + file + "': " + std::strerror(errno));
}

// Nobody is there to type a passphrase.
int no_passphrase(char*, int, int, void*) { return -1; }

ContextPtr make_context() {
  ContextPtr context(SSL_CTX_new(TLS_server_method()), SSL_CTX_free);
  SSL_CTX* const c = context.get();
  if (c == nullptr) return nullptr;
  // The end of a connection without a goodbye is an end like that of plain TCP.
  SSL_CTX_set_options(c, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                             SSL_OP_IGNORE_UNEXPECTED_EOF);
  SSL_CTX_set_mode(c, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                          SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_read_ahead(c, 1);
  SSL_CTX_set_session_cache_mode(c, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_session_id_context(c, reinterpret_cast<const unsigned char*>(kSessionName.data()),
                                 kSessionName.size());
  SSL_CTX_set_default_passwd_cb(c, no_passphrase);
  return context;
}

Status use_certificate(SSL_CTX* context, const TlsFiles& files) {
  if (Status file = check_file("tls_cert_file", files.cert_file, "a certificate in PEM form");
      !file.ok()) {
    return file;
  }
  if (Status file = check_file("tls_key_file", files.key_file, "a private key in PEM form");
      !file.ok()) {
    return file;
  }
  if (SSL_CTX_use_certificate_chain_file(context, files.cert_file.c_str()) != 1) {
    return about("tls_cert_file", "'" + files.cert_file + "' holds no certificate in PEM form");
  }
  ERR_clear_error();
  if (SSL_CTX_use_PrivateKey_file(context, files.key_file.c_str(), SSL_FILETYPE_PEM) == 1) {
    return Done{};
  }
  const unsigned long error = ERR_peek_error();
  const bool misfit =
      ERR_GET_LIB(error) == ERR_LIB_X509 && (ERR_GET_REASON(error) == X509_R_KEY_VALUES_MISMATCH ||
                                             ERR_GET_REASON(error) == X509_R_KEY_TYPE_MISMATCH);
  return about("tls_key_file",
               misfit ? "the key in '" + files.key_file + "' is not that of the certificate in '" +
                            files.cert_file + "'"
                      : "'" + files.key_file + "' holds no unencrypted private key in PEM form");
}

Status use_authorities(SSL_CTX* context, const TlsFiles& files) {
  if (files.clients == TlsClients::kNeedNot) return Done{};
  if (files.ca_cert_file.empty()) {
    return about("tls_ca_cert_file", "is needed to check the certificates of clients; or say "
                                     "--tls-auth-clients no");
  }
  const std::string& file = files.ca_cert_file;
  if (Status readable = check_file("tls_ca_cert_file", file, "certificates"); !readable.ok()) {
    return readable;
  }
  STACK_OF(X509_NAME)* const names = SSL_load_client_CA_file(file.c_str());
  if (names == nullptr || SSL_CTX_load_verify_file(context, file.c_str()) != 1) {
    return about("tls_ca_cert_file", "'" + file + "' holds no certificate in PEM form");
  }
  SSL_CTX_set_client_CA_list(context, names);
  const bool must = files.clients == TlsClients::kMust;
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | (must ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0),
                     nullptr);
  return Done{};
}

Status use_ciphers(SSL_CTX* context, const TlsFiles& files) {
  const std::string& old = files.ciphers;
  if (!old.empty() && SSL_CTX_set_cipher_list(context, old.c_str()) != 1) {
    return about("tls_ciphers", "'" + old + "' names no cipher of TLS 1.2 (openssl ciphers)");
  }
  const std::string& suites = files.ciphersuites;
  if (!suites.empty() && SSL_CTX_set_ciphersuites(context, suites.c_str()) != 1) {
    return about("tls_ciphersuites",
                 "takes cipher suites of TLS 1.3 with colons between them, as "
                 "TLS_AES_256_GCM_SHA384; not '" + suites + "'");
  }
  SSL_CTX_set_min_proto_version(context, files.tls_1_2 ? TLS1_2_VERSION : TLS1_3_VERSION);
  SSL_CTX_set_max_proto_version(context, files.tls_1_3 ? TLS1_3_VERSION : TLS1_2_VERSION);
  return Done{};
}

Result<ContextPtr> load(const TlsFiles& files) {
  ContextPtr context = make_context();
  if (context == nullptr) return about("tls_port", "OpenSSL cannot be set up");
  Status used = use_certificate(context.get(), files);
  if (used.ok()) used = use_authorities(context.get(), files);
  if (used.ok()) used = use_ciphers(context.get(), files);
  ERR_clear_error();
  if (!used.ok()) return Error{used.error()};
  return context;
}

class OpenSslServer final : public TlsServer {
 public:
  explicit OpenSslServer(ContextPtr context) : context_(std::move(context)) {}

  std::unique_ptr<TlsSession> accept(int socket, MemoryAccount* account) override {
    return OpenSslSession::open(*context(), socket, account, counters_);
  }

  TlsStats stats() const override {
    return {counters_.handshakes.load(std::memory_order_relaxed),
            counters_.failed.load(std::memory_order_relaxed),
            counters_.last_failure.load(std::memory_order_relaxed)};
  }

  Status reload(const TlsFiles& files) override {
    Result<ContextPtr> loaded = load(files);
    if (!loaded.ok()) return Error{loaded.error()};
    const std::lock_guard lock(mutex_);
    context_.swap(*loaded);
    return Done{};
  }

 private:
  // The caller keeps it alive while a reload replaces it; sessions keep it themselves.
  ContextPtr context() {
    const std::lock_guard lock(mutex_);
    return context_;
  }

  std::mutex mutex_;  // guards context_
  ContextPtr context_;
  TlsCounters counters_;
};

}  // namespace

Result<std::unique_ptr<TlsServer>> open_tls(const TlsFiles& files) {
  Result<ContextPtr> loaded = load(files);
  if (!loaded.ok()) return Error{loaded.error()};
  return std::unique_ptr<TlsServer>(std::make_unique<OpenSslServer>(std::move(*loaded)));
}

}  // namespace rubato
