// SPDX-License-Identifier: Apache-2.0
//
// The options of commands that are clients of a TLS port: --tls, --cacert, --cert, --key, --sni,
// --insecure. Main thread, at start.
#pragma once

#include <memory>
#include <string>

#include "cli/common/command_line.h"
#include "datapath/tls.h"
#include "tls/tls_client.h"

namespace rubato::cli {

struct TlsClientFlags {
  bool wanted = false, given = false;  // --tls, or one of the others
  TlsClientFiles files;
};

// `about` says which of the command's connections have it.
void add_tls_client_options(CommandLine& command, TlsClientFlags& flags, const std::string& about);

// For connections to `host`; null = without TLS. Throws for options that do not fit.
std::unique_ptr<TlsConnector> open_tls_client(const TlsClientFlags& flags, const std::string& host);

}  // namespace rubato::cli
