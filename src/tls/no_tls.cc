// SPDX-License-Identifier: Apache-2.0
//
// A build without OpenSSL.
#include "tls/tls_client.h"
#include "tls/tls_server.h"

namespace rubato {

Result<std::unique_ptr<TlsConnector>> open_tls_client(const TlsClientFiles& files) {
  static_cast<void>(files);
  return Error{"tls: this build has no TLS; it takes OpenSSL 3 (libssl-dev) to build"};
}

Result<std::unique_ptr<TlsServer>> open_tls(const TlsFiles& files) {
  static_cast<void>(files);
  return Error{"tls_port: this build has no TLS; it takes OpenSSL 3 (libssl-dev) to build"};
}

}  // namespace rubato
