// SPDX-License-Identifier: Apache-2.0
//
// The workloads as requests of the live runtime with `--preempt checkpoint`, and a checkpoint at
// every basic block of theirs. Those that hold locks or wait give way inside code that knows
// nothing of fibers, and keep their thread-local storage (runtime/fiber_scheduler.h).
// Until RUBATO_TORTURE_CHECKPOINTS preemptions were made.
#include <gtest/gtest.h>

#include <cstdio>

#include "mechanism/preempt/checkpoint.h"
#include "tests/torture/served.h"
#include "tests/torture/stores.h"

// Called at every basic block of code that was compiled for it.
extern "C" void __sanitizer_cov_trace_pc() { rubato::checkpoint(); }

namespace torture {
namespace {

TEST(TortureAtCheckpoints, results_are_those_of_a_run_without_preemption) {
  const uint64_t wanted = asked("RUBATO_TORTURE_CHECKPOINTS", 300'000);
  const Stores stores;
  Served served(rubato::PreemptMechanism::kCheckpoint, "1us", workloads());
  served.start();
  // Few locks are taken when somebody wants them; without any this hangs.
  const auto enough = [&] {
    return served.stats().preemptions >= wanted && served.stats().lock_yields > 0;
  };
  while (!enough() && !HasFatalFailure()) served.serve_a_round();
  EXPECT_TRUE(served.stop());
  const auto stats = served.stats();
  served.expect_results_as_without();
  printf("%lu runs, %lu preemptions, %lu yields for locks\n", served.runs(), stats.preemptions,
         stats.lock_yields);
}

}  // namespace
}  // namespace torture
