// SPDX-License-Identifier: Apache-2.0
//
// What makes `rubato-virtual` of the objects of `rubato`.
#include <utility>

#include "cli/common/virtual_host.h"
#include "runtime/app.h"
#include "spin_server/spin_server.h"
#include "virtual/world.h"

namespace rubato::cli {
namespace {

constexpr Nanos kSpinSkip = Nanos::micros(5);
// What a write takes to reach the other cores, at most.
constexpr Nanos kLead = Nanos(100);
// Where rounds take no time idle workers look whether another one is stuck at multiples of this
// (`help_looks` of src/sim/costs/ideal-polled.toml).
constexpr Nanos kIdealSpinSkip = Nanos(100);

bool run_in_world(uint64_t seed, const sim::Costs::World& prices,
                  const std::function<bool()>& body) {
  virt::WorldOptions options;
  options.seed = seed;
  options.spin_skip = kSpinSkip;
  options.lead = kLead;
  options.access = prices.access;
  options.plain_access = Nanos();
  options.clock_read = prices.clock_read;
  options.system_call = prices.system_call;
  options.wake_up = prices.wake_up;
  options.pause = prices.pause;
  options.first_is_free = true;
  options.end = Nanos::max();
  if (prices.ideal()) {
    options.spin_skip = kIdealSpinSkip;
    options.lead = Nanos();
    options.in_step = true;
  }
  bool good = false;
  virt::run(options, [&] { good = body(); });
  return good;
}

// As spin::busy_work, which goes by the clock; here the work takes its time beside that of its
// checkpoints, as the work of real requests does.
void work(Nanos service) {
  for (Nanos left = service; left > Nanos();) {
    const int64_t whole = left.count() / spin::kWorkUnit.count();
    if (whole > 0) {
      left -= spin::kWorkUnit * virt::spend_steps(spin::kWorkUnit, whole);
    } else {
      virt::spend(std::exchange(left, Nanos()));
    }
    if (left <= Nanos() || checkpoint()) return;
  }
}

constexpr VirtualHost kHost{run_in_world, work, virt::clock};
[[gnu::constructor]] void be_the_host() { set_virtual_host(kHost); }

}  // namespace
}  // namespace rubato::cli
