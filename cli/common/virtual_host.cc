// SPDX-License-Identifier: Apache-2.0
#include "cli/common/virtual_host.h"

#include "sim/cost_file.h"

namespace rubato::cli {
namespace {

constinit const VirtualHost* g_host = nullptr;

}  // namespace

const VirtualHost* virtual_host() { return g_host; }
void set_virtual_host(const VirtualHost& host) { g_host = &host; }

sim::Costs::World world_prices(const sim::Costs& costs) {
  return costs.world ? *costs.world : sim::load_costs("virtual").value().world.value();
}

void HostOption::add_to(CommandLine& command) {
  command.add_choice("--host", host_, {"live", "virtual"},
                     "Where the runtime runs: this machine, or virtual time (rubato-virtual)");
}

const VirtualHost* HostOption::get() const {
  if (!is_virtual()) return nullptr;
  if (virtual_host() == nullptr) {
    bad_value("--host", "virtual is in rubato-virtual only: cmake --preset tsan, then "
                        "cmake --build --preset tsan --target rubato_virtual_cli");
  }
  return virtual_host();
}

}  // namespace rubato::cli
