// SPDX-License-Identifier: Apache-2.0
#include "sim/outcomes.h"

#include <gtest/gtest.h>

#include "sim/testing/digest.h"
#include "sim/testing/runs.h"

namespace rubato::sim {
namespace {

// Section VIII-C of Altocumulus: 256 workers in 16 groups, a mean service of 630 ns, a NIC that
// brings a request every 2.5 ns; 400 000 requests (VIII-D), SLO of ten mean services (VII-B).
sim::Setup papers_setup(uint64_t requests = 400'000) {
  sim::Setup setup = ideal(256, "fixed-630ns", 630 / 2.5 / 256, requests);
  setup.warmup = 0;
  return setup;
}
const Settings kPapersSettings = {{"group", "16"}};
constexpr Nanos kPapersLimit(6300);

JudgedRun judged(const sim::Setup& setup, const Settings& settings = kPapersSettings,
                 Nanos limit = kPapersLimit) {
  return simulate_and_judge("altocumulus", settings, setup, limit).value();
}

TEST(MoveOutcomes, policies_with_managers_can_be_judged) {
  EXPECT_TRUE(moves_requests("altocumulus"));
  EXPECT_FALSE(moves_requests("synergy"));
  EXPECT_FALSE(moves_requests("sbb"));
  EXPECT_FALSE(moves_requests("lottery"));
}

// At the paper's best setting it counts 70 K effective ones and 53 false ones among 161 K.
TEST(MoveOutcomes, at_the_papers_setting_moves_are_hardly_ever_harmful) {
  const MoveOutcomes moves = judged(papers_setup()).moves;
  EXPECT_GT(moves.moved(), 10'000u);
  EXPECT_LT(moves.harmful * 100, moves.moved());
  EXPECT_LT(moves.without_benefit * 100, moves.moved());
  EXPECT_GT(moves.late_without, 100u);
  EXPECT_LT(moves.late_with * 100, moves.late_without);
}

TEST(MoveOutcomes, every_move_has_one_outcome) {
  const JudgedRun run = judged(papers_setup(50'000));
  EXPECT_GT(run.moves.moved(), 0u);
  EXPECT_EQ(run.moves.moved(), more(run.outcome, "moved_between_managers"));
}

TEST(MoveOutcomes, the_judged_run_is_the_run_itself) {
  const sim::Setup setup = papers_setup(50'000);
  EXPECT_EQ(digest_of(judged(setup).outcome),
            digest_of(simulate("altocumulus", kPapersSettings, setup).value()));
}

TEST(MoveOutcomes, the_limit_decides) {
  const sim::Setup setup = papers_setup(50'000);
  const MoveOutcomes lenient = judged(setup, kPapersSettings, Nanos::seconds(1)).moves;
  EXPECT_EQ(lenient.without_harm, lenient.moved());
  EXPECT_EQ(lenient.late_without + lenient.late_with, 0u);
  const MoveOutcomes strict = judged(setup, kPapersSettings, Nanos(1)).moves;
  EXPECT_EQ(strict.without_benefit, strict.moved());
  EXPECT_EQ(strict.late_without, 50'000u);
  EXPECT_EQ(strict.late_with, 50'000u);
}

TEST(MoveOutcomes, nothing_moves_nothing_changes) {
  const MoveOutcomes moves =
      judged(papers_setup(50'000), {{"group", "16"}, {"migrate", "off"}}).moves;
  EXPECT_EQ(moves.moved(), 0u);
  EXPECT_EQ(moves.late_without, moves.late_with);
}

TEST(MoveOutcomes, refused_requests_are_late_and_warm_up_is_left_out) {
  sim::Setup setup = papers_setup(50'000);
  setup.warmup = 0.2;
  setup.costs.queue_capacity = 3;
  const JudgedRun run = judged(setup);
  const RequestCounts counts = counts_of(run.outcome);
  EXPECT_GT(counts.refused, 0u);
  EXPECT_GE(run.moves.late_with, counts.refused);
  EXPECT_LE(run.moves.late_with, run.outcome.measured);
  EXPECT_LE(run.moves.moved(), more(run.outcome, "moved_between_managers"));
}

TEST(MoveOutcomes, a_stopped_run_is_not_judged) {
  Watch watch;
  double seen = 0;
  watch.progress = [&seen](double done) {
    EXPECT_LE(done, 1);
    seen = done;
    return false;
  };
  const JudgedRun run =
      simulate_and_judge("altocumulus", {}, papers_setup(3u << 20), kPapersLimit, watch).value();
  EXPECT_GT(seen, 0);
  EXPECT_LT(seen, 0.5);  // of two runs the first
  EXPECT_LT(run.outcome.requests, 3u << 20);
  EXPECT_EQ(run.moves.moved() + run.moves.late_without, 0u);
}

TEST(MoveOutcomes, bad_settings_are_refused) {
  const auto run =
      simulate_and_judge("altocumulus", {{"group", "0"}}, papers_setup(10), kPapersLimit);
  EXPECT_FALSE(run.ok());
}

}  // namespace
}  // namespace rubato::sim
