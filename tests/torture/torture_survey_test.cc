// SPDX-License-Identifier: Apache-2.0
//
// The survey: hundreds of functions of the C and the C++ library, and foreign work of some forty
// kinds, as requests that are interrupted by signals and by timers, beside short requests. All give
// what they gave undisturbed, and nothing hangs: a watchdog says so. As often as
// RUBATO_TORTURE_PREEMPTIONS says.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <string_view>
#include <vector>

#include "tests/torture/served.h"
#include "tests/torture/survey.h"

namespace torture {
namespace {

using rubato::PreemptMechanism;

// Between two answers; a run that hangs does so for ever.
constexpr unsigned kWatchdogSeconds = 100;

void on_watchdog(int) {
  constexpr std::string_view kWhat = "no answer any more: a worker waits for a lock\n";
  static_cast<void>(!write(STDERR_FILENO, kWhat.data(), kWhat.size()));
  _exit(1);
}

std::vector<Workload> all_of_it() {
  std::vector<Workload> all;
  for (unsigned i = 0; i < survey_count(); ++i) {
    all.push_back({survey_name(i), [i](uint64_t seed) { return survey_run(i, seed); }, true});
  }
  for (const Workload& call : survey_of_cpp()) all.push_back(call);
  for (const Workload& work : foreign_work()) all.push_back(work);
  return all;
}

class Survey : public ::testing::TestWithParam<PreemptMechanism> {
 protected:
  void SetUp() override {
    std::signal(SIGALRM, on_watchdog);
    setenv("RUBATO_TORTURE", "prepared", 1);
  }
  void TearDown() override { alarm(0); }

  const std::vector<Workload> all_ = all_of_it();
};

TEST_F(Survey, calls_several_hundred_functions_and_forty_kinds_of_work) {
  EXPECT_GE(survey_count(), 500u);
  EXPECT_GE(survey_of_cpp().size(), 100u);
  if (foreign_work().size() < 40) {
    printf("%zu kinds of foreign work: the headers of some libraries are not installed\n",
           foreign_work().size());
  }
  EXPECT_GE(foreign_work().size(), 30u);
}

TEST_F(Survey, gives_the_same_twice) {
  alarm(kWatchdogSeconds);
  const Expected expected(all_);
  for (uint64_t number = 0; number < expected.count(); ++number) {
    EXPECT_TRUE(expected.holds(number)) << expected.workload(number).name;
  }
}

TEST_P(Survey, gives_what_it_gave_undisturbed) {
  if (const rubato::Status has = rubato::available(GetParam()); !has.ok()) {
    GTEST_SKIP() << has.error();
  }
  alarm(kWatchdogSeconds);
  Served served(GetParam(), "60us", all_);
  const bool own_timer = GetParam() == PreemptMechanism::kTimer;
  const uint64_t wanted = asked("RUBATO_TORTURE_PREEMPTIONS", own_timer ? 30'000 : 3'000);
  served.start();
  while ((served.stats().preemptions < wanted || served.runs() < 2 * 16 * all_.size()) &&
         !HasFatalFailure()) {
    alarm(kWatchdogSeconds);
    served.serve_a_round();
  }
  EXPECT_TRUE(served.stop());
  const auto stats = served.stats();
  served.expect_results_as_without();
  printf("%lu calls of %zu kinds, %lu preemptions, %lu put off, %lu yields for locks, %lu left as "
         "stuck\n",
         served.runs(), all_.size(), stats.preemptions, stats.preemptions_deferred,
         stats.lock_yields, stats.stuck_left);
  EXPECT_EQ(stats.preemptions + stats.lock_yields, stats.resumed);
}

INSTANTIATE_TEST_SUITE_P(By, Survey,
                         ::testing::Values(PreemptMechanism::kSignal, PreemptMechanism::kTimer),
                         [](const auto& with) { return rubato::to_string(with.param); });

}  // namespace
}  // namespace torture
