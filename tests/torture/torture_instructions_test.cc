// SPDX-License-Identifier: Apache-2.0
//
// The workloads as requests of the live runtime, interrupted at random instructions of theirs and
// of the libraries that they use, by breakpoints (breakpoints.h). The mechanism is `timer`, and the
// timer is these breakpoints: the one of the system is never set, so every interrupt is theirs.
// Until RUBATO_TORTURE_INSTRUCTIONS preemptions were made; RUBATO_SEED chooses the instructions.
#include <gtest/gtest.h>
#include <signal.h>
#include <time.h>

#include <array>
#include <cstdio>
#include <string_view>

#include "mechanism/clock/clock.h"
#include "tests/torture/breakpoints.h"
#include "tests/torture/served.h"
#include "tests/torture/stores.h"

// Found before that of libc.
extern "C" int timer_settime(timer_t, int, const itimerspec*, itimerspec*) noexcept { return 0; }

namespace torture {
namespace {

// All but the C library and the loader, which block signals for moments.
constexpr auto kObjects = std::to_array<std::string_view>(
    {"libtorture_workloads", "libtorture_foreign", "librocksdb", "libleveldb", "libfmt",
     "libsnappy", "libstdc++", "libgcc_s", "libm.so"});
constexpr uint32_t kChosenPerRound = 64;

// The preemptions that took place at the very instruction that was interrupted.
uint64_t at_instructions(const Served& served, const Breakpoints& breakpoints) {
  const uint64_t avoided = served.stats().preemptions_avoided;  // nobody waited
  const uint64_t free = breakpoints.free_interrupts();
  return free > avoided ? free - avoided : 0;
}

void say(const Served& served, const Breakpoints& breakpoints, uint64_t seed) {
  const auto stats = served.stats();
  printf("seed %lu: %lu runs, %lu differ, %lu interrupts, %lu put off, %lu preemptions, %lu of "
         "them where it was interrupted, %lu yields for locks\n",
         seed, served.runs(), served.differing(), breakpoints.interrupts(),
         stats.preemptions_deferred, stats.preemptions, at_instructions(served, breakpoints),
         stats.lock_yields);
  fflush(stdout);
}

TEST(TortureAtInstructions, results_are_those_of_a_run_without_preemption) {
  constexpr auto kMechanism = rubato::PreemptMechanism::kTimer;
  if (const rubato::Status has = rubato::available(kMechanism); !has.ok()) {
    GTEST_SKIP() << has.error();
  }
  const uint64_t wanted = asked("RUBATO_TORTURE_INSTRUCTIONS", 200'000);
  const uint64_t seed = asked("RUBATO_SEED", 1);
  Breakpoints breakpoints(kObjects);
  ASSERT_EQ(breakpoints.trouble(), "");
  const Stores stores;
  Served served(kMechanism, "2.2us", workloads());
  served.start();
  served.serve_a_round();  // from here on both workers can be interrupted
  breakpoints.set(seed);
  rubato::Instant said = rubato::now();
  while (at_instructions(served, breakpoints) < wanted && !HasFatalFailure()) {
    breakpoints.choose(kChosenPerRound);
    served.serve_a_round();
    if (rubato::now() - said < rubato::Nanos::seconds(30)) continue;
    said = rubato::now();
    say(served, breakpoints, seed);
  }
  breakpoints.clear();
  EXPECT_TRUE(served.stop());
  served.expect_results_as_without();
  say(served, breakpoints, seed);
  for (const auto& object : breakpoints.objects()) {
    printf("%s: interrupted at %lu of %lu instructions\n", object.name.c_str(), object.met,
           object.instructions);
  }
  EXPECT_GT(served.stats().preemptions_deferred, 0u);
}

}  // namespace
}  // namespace torture
