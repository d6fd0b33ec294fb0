// SPDX-License-Identifier: Apache-2.0
//
// What makes `rubato-virtual` of the objects of `rubato`.
#include <algorithm>

#include "cli/common/virtual_host.h"
#include "runtime/app.h"
#include "virtual/world.h"

namespace rubato::cli {
namespace {

constexpr Nanos kWorkUnit = Nanos(500);
constexpr Nanos kSpinSkip = Nanos::micros(5);
// What a write takes to reach the other cores, at most.
constexpr Nanos kLead = Nanos(100);
// Where rounds take no time this is how late an idle worker sees that another one is stuck.
constexpr Nanos kIdealSpinSkip = Nanos(100);

bool run_in_world(uint64_t seed, bool ideal, const std::function<bool()>& body) {
  virt::WorldOptions options;
  options.seed = seed;
  options.spin_skip = kSpinSkip;
  options.lead = kLead;
  options.plain_access = Nanos();
  options.first_is_free = true;
  options.end = Nanos::max();
  if (ideal) {
    options.access = options.clock_read = options.system_call = Nanos();
    options.wake_up = options.pause = Nanos();
    options.spin_skip = kIdealSpinSkip;
    options.lead = Nanos();
  }
  bool good = false;
  virt::run(options, [&] { good = body(); });
  return good;
}

// As spin::busy_work, whose clock is read for nothing here.
void work(Nanos service) {
  Nanos left = service;
  Instant since = virt::clock();
  while (left > Nanos()) {
    const int64_t whole = left.count() / kWorkUnit.count();
    whole > 0 ? static_cast<void>(virt::spend_steps(kWorkUnit, whole)) : virt::spend(left);
    const Instant at = virt::clock();
    left -= at - since;
    if (left <= Nanos() || checkpoint()) return;
    const Instant back = virt::clock();
    since = back - at < kWorkUnit ? at : back;
  }
}

constexpr VirtualHost kHost{run_in_world, work};
[[gnu::constructor]] void be_the_host() { set_virtual_host(kHost); }

}  // namespace
}  // namespace rubato::cli
