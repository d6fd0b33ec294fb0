// SPDX-License-Identifier: Apache-2.0
//
// TlsServer: the TlsContext of a server whose certificates are files. Certificates can be replaced
// while connections are served: those that exist keep what they began with.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "datapath/tls.h"

namespace rubato {

// Whether clients must show a certificate that an authority of TlsFiles::ca_cert_file has signed.
enum class TlsClients : uint8_t { kMust, kMay, kNeedNot };

// Names of files in PEM form, and what else a reload may change.
struct TlsFiles {
  std::string cert_file;  // the server's certificate, and the chain behind it
  std::string key_file;   // its private key, not encrypted
  std::string ca_cert_file;
  TlsClients clients = TlsClients::kMust;
  // Lists as OpenSSL takes them; empty = its own choice.
  std::string ciphers{};       // of TLS 1.2
  std::string ciphersuites{};  // of TLS 1.3
  bool tls_1_2 = true;       // whether that version is spoken
  bool tls_1_3 = true;
};

class TlsServer : public TlsContext {
 public:
  // Sessions that are made from now on use these files. Fails with one line that begins with the
  // option ("tls_key_file: ..."), and then all stays as it was. Any thread.
  virtual Status reload(const TlsFiles& files) = 0;
};

// Fails likewise, and also in a build without TLS.
Result<std::unique_ptr<TlsServer>> open_tls(const TlsFiles& files);

}  // namespace rubato
