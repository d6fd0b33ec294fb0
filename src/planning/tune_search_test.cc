// SPDX-License-Identifier: Apache-2.0
//
// The search over trials that are formulas, so that the right answer is known.
#include "planning/tune_search.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "planning/search.h"
#include "workload/duration.h"

namespace rubato::planning {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::string setting(const Configuration& c, const std::string& name) {
  for (const auto& [key, value] : c.candidate.settings) {
    if (key == name) return value;
  }
  return "";
}

// `Screening` and `Confirming` give the score of a configuration.
template <class Screening, class Confirming = Screening>
class FormulaTrials : public Trials {
 public:
  explicit FormulaTrials(Screening formula) : screening_(formula), confirming_(formula) {}
  FormulaTrials(Screening screening, Confirming confirming)
      : screening_(screening), confirming_(confirming) {}

  std::vector<Score> screen(const std::vector<Configuration>& configurations,
                            double share) override {
    std::vector<Score> scores;
    for (const Configuration& c : configurations) {
      workers_.insert(c.workers);
      cost_ += share;
      scores.push_back({screening_(c), screening_(c)});
    }
    return scores;
  }
  Score confirm(const Configuration& c) override { return {confirming_(c), confirming_(c)}; }

  const std::set<uint32_t>& workers() const { return workers_; }
  double cost() const { return cost_; }  // of the screening, in full runs

 private:
  Screening screening_;
  Confirming confirming_;
  std::set<uint32_t> workers_;
  double cost_ = 0;
};

// Of a workload with services of 1 to 100 us.
TuneResult tuned(Trials& trials, std::vector<std::string> policies, uint32_t least, uint32_t most) {
  return tune(trials, {std::move(policies), {Nanos(250), Nanos::micros(400)}, least, most});
}

const Configuration& best_of(const TuneResult& result) {
  return result.ranking.front().configuration;
}

TEST(ExponentialSearch, finds_every_limit_and_quickly_those_that_are_near) {
  for (uint32_t most : {0u, 1u, 2u, 7u, 100u}) {
    for (uint32_t limit = 0; limit <= most; ++limit) {
      EXPECT_EQ(exponential_search(most, [&](uint32_t k) {
                  EXPECT_GE(k, 1u);
                  EXPECT_LE(k, most);
                  return k <= limit;
                }),
                limit);
    }
  }
  uint32_t calls = 0;
  exponential_search(1'000'000, [&](uint32_t k) { return ++calls, k <= 2; });
  EXPECT_LE(calls, 5u);
}

TEST(TuneSearch, finds_the_fewest_workers_whatever_they_are) {
  for (uint32_t needed = 3; needed <= 16; ++needed) {
    FormulaTrials trials([&](const Configuration& c) {
      const double base = c.candidate.policy == "cfcfs" ? needed : needed + 2;
      return base / c.workers;
    });
    const TuneResult result = tuned(trials, {"fcfs", "cfcfs"}, 3, 16);
    EXPECT_TRUE(result.met);
    EXPECT_EQ(best_of(result).workers, needed);
    EXPECT_EQ(best_of(result).candidate.policy, "cfcfs");
    EXPECT_EQ(result.ranking.size(), 2u);
  }
}

TEST(TuneSearch, looks_at_few_of_many_numbers_of_workers) {
  FormulaTrials trials([](const Configuration& c) { return 23.0 / c.workers; });
  const TuneResult result = tuned(trials, {"fcfs"}, 20, 256);
  EXPECT_EQ(best_of(result).workers, 23u);
  EXPECT_LE(trials.workers().size(), 7u);
}

TEST(TuneSearch, settings_save_workers) {
  FormulaTrials trials([](const Configuration& c) {
    if (c.candidate.policy != "ps") return 10.0 / c.workers;
    return (setting(c, "quantum") == "5us" ? 6.0 : 12.0) / c.workers;
  });
  const TuneResult result = tuned(trials, {"cfcfs", "ps"}, 2, 16);
  EXPECT_TRUE(result.met);
  EXPECT_EQ(text_of(best_of(result)), "ps quantum=5us with 6 workers");
}

// The default of ps is 10 us; the best quantum is the geometric distance away that a workload of
// milliseconds has.
TEST(TuneSearch, finds_settings_that_are_orders_of_magnitude_away_from_the_default) {
  FormulaTrials trials([](const Configuration& c) {
    const std::string quantum = setting(c, "quantum");
    const double us = quantum.empty() ? 10 : parse_duration(quantum)->micros();
    const double off = std::abs(std::log10(us / 500));
    return (5 + 10 * off) / c.workers;
  });
  const TuneResult result =
      tune(trials, {{"ps"}, {Nanos::micros(25), Nanos::millis(40)}, 5, 16});
  EXPECT_TRUE(result.met);
  EXPECT_LE(best_of(result).workers, 7u);
  ASSERT_TRUE(result.with_fewer.has_value());
  EXPECT_GT(result.with_fewer->score, 1);
}

TEST(TuneSearch, tells_that_it_did_not_look_at_fewer_workers) {
  FormulaTrials trials([](const Configuration& c) { return 0.5 / c.workers; });
  EXPECT_FALSE(tuned(trials, {"ps"}, 1, 4).with_fewer.has_value());
}

// A full run of every setting of every step would cost more than three times as much.
TEST(TuneSearch, sees_most_settings_in_short_runs_only) {
  FormulaTrials trials([](const Configuration& c) { return 20.0 / c.workers; });
  tuned(trials, {"synergy"}, 1, 4);
  size_t values = 0;
  for (const Parameter& p : parameters_of("synergy", {Nanos(250), Nanos::micros(400)})) {
    values += p.alternatives.size();
  }
  EXPECT_LT(trials.cost(), static_cast<double>(values));
}

TEST(TuneSearch, several_settings_are_combined) {
  FormulaTrials trials([](const Configuration& c) {
    const double factor = setting(c, "quantum_factor") == "8" ? 0.5 : 1;
    const double levels = setting(c, "levels") == "2" ? 0.5 : 1;
    return 4 * factor * levels / c.workers;
  });
  const TuneResult result = tuned(trials, {"synergy"}, 1, 4);
  EXPECT_EQ(text_of(best_of(result)), "synergy levels=2 quantum_factor=8 with 1 worker");
}

TEST(TuneSearch, settings_that_void_each_other_are_not_tried) {
  FormulaTrials trials([](const Configuration& c) {
    EXPECT_TRUE(check_together(c.candidate).ok()) << text_of(c);
    const double levels = setting(c, "levels") == "2" ? 0.5 : 1;
    const double queue = setting(c, "wait_queue") == "off" ? 0.8 : 1;
    return 2 * levels * queue / c.workers;
  });
  EXPECT_EQ(text_of(best_of(tuned(trials, {"synergy", "darc"}, 1, 4))),
            "synergy levels=2 with 1 worker");
}

TEST(TuneSearch, a_default_stays_unless_the_gain_is_worth_it) {
  FormulaTrials trials(
      [](const Configuration& c) { return c.candidate.settings.empty() ? 0.9 : 0.89; });
  EXPECT_EQ(text_of(best_of(tuned(trials, {"ps"}, 1, 4))), "ps with 1 worker");
}

TEST(TuneSearch, what_the_other_seeds_do_not_confirm_is_not_taken) {
  // One seed says that every policy does with one worker; the others say three, and that the
  // setting is worse.
  const auto optimist = [](const Configuration& c) {
    return c.candidate.settings.empty() ? 0.9 : 0.5;
  };
  const auto truth = [](const Configuration& c) {
    return (c.candidate.settings.empty() ? 3.0 : 4.0) / c.workers;
  };
  FormulaTrials trials(optimist, truth);
  EXPECT_EQ(text_of(best_of(tuned(trials, {"ps"}, 1, 8))), "ps with 3 workers");
}

TEST(TuneSearch, of_equally_many_workers_the_greatest_margin_wins) {
  FormulaTrials trials([](const Configuration& c) {
    return c.workers < 2 ? 5.0 : c.candidate.policy == "cfcfs" ? 0.9 : 0.4;
  });
  const TuneResult result = tuned(trials, {"cfcfs", "fcfs"}, 1, 8);
  EXPECT_EQ(text_of(best_of(result)), "fcfs with 2 workers");
  EXPECT_EQ(result.ranking[1].score, 0.9);
}

TEST(TuneSearch, tells_the_best_there_is_when_nothing_will_do) {
  FormulaTrials trials([](const Configuration& c) {
    return (c.candidate.policy == "ps" ? 30.0 : 40.0) / c.workers;
  });
  const TuneResult result = tuned(trials, {"fcfs", "ps"}, 1, 16);
  EXPECT_FALSE(result.met);
  EXPECT_TRUE(result.conceivable);
  EXPECT_EQ(text_of(best_of(result)), "ps with 16 workers");
}

TEST(TuneSearch, tries_no_settings_where_not_even_the_most_workers_would_do) {
  FormulaTrials trials([](const Configuration& c) {
    EXPECT_TRUE(c.candidate.settings.empty());
    return 2 + 1.0 / c.workers;
  });
  const TuneResult result = tuned(trials, {"fcfs", "ps"}, 1, 16);
  EXPECT_FALSE(result.met);
  EXPECT_FALSE(result.conceivable);
  EXPECT_EQ(best_of(result).workers, 16u);
}

TEST(TuneSearch, ends_when_trials_have_no_more_scores) {
  uint32_t left = 0;
  const auto limited = [&](const Configuration& c) {
    if (left == 0) return kInfinity;
    --left;
    return 10.0 / c.workers;
  };
  for (uint32_t runs = 0; runs < 60; ++runs) {
    left = runs;
    FormulaTrials trials(limited);
    const TuneResult result = tuned(trials, {"ps", "synergy"}, 1, 16);
    EXPECT_EQ(result.ranking.size(), 2u);
    if (result.met) {
      EXPECT_GE(best_of(result).workers, 10u);
    }
  }
}

}  // namespace
}  // namespace rubato::planning
