// SPDX-License-Identifier: Apache-2.0
//
// The DPDK wire for programs that need no DPDK: loads the plugin librubato-dpdk.so when it is asked
// for. Main thread, before there are workers; the plugin stays loaded.
#pragma once

#include "dpdk/plugin.h"

namespace rubato {

// The plugin of that program, in the folder that is named from beside the program's own. Fails with
// one line where somebody could have put another file there: its owner and its folders' is root,
// the caller or who owns the program, and nobody else may write. Any thread.
Result<std::string> find_dpdk_plugin(const std::string& program, const std::string& folder);

// Fails with one line: where there is no plugin, no DPDK, or for what DPDK does not allow.
Result<std::unique_ptr<DatagramWire>> open_dpdk_wire(DpdkWireOptions options);

// The version of the DPDK that the plugin was loaded with. Fails as above.
Result<std::string> dpdk_version();

}  // namespace rubato
