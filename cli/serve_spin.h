// SPDX-License-Identifier: Apache-2.0
//
// `rubato serve spin`: the synthetic server (apps/spin_server) on TCP. Main thread.
#pragma once

namespace CLI {
class App;
}

namespace rubato::cli {

// Adds the subcommand to `serve`; its callback runs the server and stores the exit status.
void add_serve_spin(CLI::App& serve, int& status);

}  // namespace rubato::cli
