// SPDX-License-Identifier: Apache-2.0
#include "virtual/world.h"

#include <malloc.h>

#include <cstdlib>

#include "virtual/scheduler.h"

namespace rubato::virt {
namespace {

// The processor's counter is not virtual; and where memory lies must not depend on when threads of
// the system were made, since std::atomic::wait shares its waiters by address.
[[gnu::constructor]] void prepare_the_process() {
  setenv("RUBATO_CLOCK", "kernel", 1);
  mallopt(M_ARENA_MAX, 1);
}

}  // namespace

WorldReport run(const WorldOptions& options, const std::function<void()>& body) {
  Scheduler scheduler(options);
  return scheduler.run(body);
}

bool within() { return Scheduler::here() != nullptr; }

void spend(Nanos time) {
  if (Scheduler* scheduler = Scheduler::here()) scheduler->compute(time);
}

}  // namespace rubato::virt
