// SPDX-License-Identifier: Apache-2.0
//
// open_tls_client: the TlsConnector of a client, TLS 1.2 and 1.3, by files in PEM form.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "datapath/tls.h"

namespace rubato {

struct TlsClientFiles {
  // The name or address that the server's certificate must have; a server is told a name (SNI).
  std::string server_name;
  std::string ca_cert_file;  // who may have signed it; empty = the authorities of the machine
  bool insecure = false;     // any certificate will do
  std::string cert_file;     // of the client, and the chain behind it; empty = none
  std::string key_file;      // its private key, not encrypted
};

// Fails with one line that begins with the option (cacert, cert, key), and in a build without TLS.
Result<std::unique_ptr<TlsConnector>> open_tls_client(const TlsClientFiles& files);

}  // namespace rubato
