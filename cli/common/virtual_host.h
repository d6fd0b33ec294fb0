// SPDX-License-Identifier: Apache-2.0
//
// The live runtime in virtual time, in the program that has it: `rubato-virtual`, which the preset
// tsan builds. `rubato calibrate` and `rubato fidelity` take --host live or virtual. Set-up, main
// thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"
#include "base/time.h"
#include "cli/common/command_line.h"
#include "sim/costs.h"

namespace rubato::cli {

struct VirtualHost {
  // Runs `body` in a world of its own, as its first thread, which plays what is around the server:
  // all it does, but to read the clock and to pause, takes no time. Returns what `body` returns.
  bool (*run)(uint64_t seed, const sim::Costs::World& prices, const std::function<bool()>& body);
  // The calling thread, in the world, occupies its worker as spin::busy_work does.
  void (*work)(Nanos service);
  // The calling thread's clock in the world, for what is no part of the server: reading it takes no
  // time.
  Instant (*clock)();
};

// Null = this program has no virtual time.
const VirtualHost* virtual_host();
void set_virtual_host(const VirtualHost& host);

// Those of the file, or where it has none those of the built-in `virtual`.
sim::Costs::World world_prices(const sim::Costs& costs);

// The option --host.
class HostOption {
 public:
  void add_to(CommandLine& command);
  bool is_virtual() const { return host_ == "virtual"; }
  // Null = the machine itself. Ends the program with a line if there is no such host.
  const VirtualHost* get() const;

 private:
  std::string host_ = "live";
};

}  // namespace rubato::cli
