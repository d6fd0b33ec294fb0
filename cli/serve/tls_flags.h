// SPDX-License-Identifier: Apache-2.0
//
// Options of TLS: which ports have it, and the files that it takes. Main thread, at start; the
// certificates are loaded again by the thread that reloads.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "cli/common/command_line.h"
#include "cli/serve/reload.h"
#include "metrics/open_metrics.h"
#include "tls/tls_server.h"

namespace rubato::cli {

struct TlsOptions {
  int port = -1;  // of RESP; -1 = none, 0 = any free one
  std::string rpc = "no";
  std::string metrics = "no";
  TlsFiles files;
  std::string auth_clients = "yes";

  bool has_port() const { return port >= 0; }
  bool on_rpc() const { return rpc == "yes"; }
  bool on_metrics() const { return metrics == "yes"; }
  bool wanted() const { return has_port() || on_rpc() || on_metrics(); }
};

void add_tls_options(CommandLine& command, TlsOptions& options);

// The files, as the options name them.
TlsFiles files_of(const TlsOptions& options);

// After the parse: loads the certificates, if a port has TLS; null = none has. Fails with one line
// that names the option.
Result<std::unique_ptr<TlsServer>> open_tls(const TlsOptions& options);

// Has each reload load the certificates again, which may have changed though their names did not.
// `options_of` finds the options in a program that was loaded.
void reload_tls(Reloader& reloader, TlsServer& server,
                const TlsOptions& (*options_of)(const ServeProgram& loaded));

void expose(OpenMetrics& out, const TlsStats& stats);

}  // namespace rubato::cli
