// SPDX-License-Identifier: Apache-2.0
#include "planning/tune_trials.h"

#include <algorithm>
#include <limits>
#include <string_view>

#include "base/option_text.h"
#include "planning/parallel.h"
#include "policy/catalog.h"
#include "workload/duration.h"

namespace rubato::planning {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr Score kNoScore = {kInfinity, kInfinity};
// A policy that learns in windows is seen over so many of them at least, up to the full length.
constexpr double kWindows = 4;
// Rounds of Experiment::seeds that may be needed to be sure of a configuration.
constexpr uint32_t kSeedRounds = 3;

// The requests that the policy learns from before it has a plan; 0 = none.
double window_of(const Candidate& candidate) {
  const PolicyInfo* const policy = find_policy(candidate.policy);
  if (policy == nullptr) return 0;
  for (const auto& [name, value] : candidate.settings) {
    if (name == "window") return parse_number(value).value_or(0);
  }
  for (const OptionDescription& option : policy->options) {
    if (std::string_view(option.name) == "window") {
      return parse_number(option.default_value).value_or(0);
    }
  }
  return 0;
}

// A short run misses the tail, but not what it has: the figures themselves are compared.
Score score_of(const SloResult& result) { return {result.figure_ratio, result.least_ratio}; }

}  // namespace

bool SimulatedTrials::affordable(uint64_t runs) {
  if (runs_ + runs > most_runs_) exhausted_ = true;
  return !exhausted_ && !stop_.load(std::memory_order_relaxed);
}

// False when it was stopped. Runs that fail are not complete.
bool SimulatedTrials::simulate(std::vector<Run>& runs) {
  uint64_t done = 0;
  run_parallel(
      runs.size(), experiment_.threads, stop_,
      [&](size_t i, const TaskProgress& progress) {
        Run& run = runs[i];
        const Candidate& candidate = run.configuration.candidate;
        sim::Setup setup = setup_at(experiment_, 0, run.seed_index);
        setup.workers = run.configuration.workers;
        const double full = static_cast<double>(setup.requests);
        const double wanted = std::max(full * run.share, kWindows * window_of(candidate));
        setup.requests = static_cast<uint64_t>(std::min(wanted, full));
        sim::Watch watch;
        watch.progress = progress;
        auto outcome = sim::simulate(candidate.policy, candidate.settings, setup, watch);
        if (!outcome) {
          run.error = outcome.error();
          return true;  // of this configuration only
        }
        run.report = sim::make_report(setup, *outcome);
        run.report.run.policy = candidate.policy;
        run.complete = !outcome->stopped;
        return true;
      },
      [&](double share) {
        show_progress_(static_cast<double>(runs_) + share * static_cast<double>(runs.size()),
                       runs.back().configuration.workers);
      });
  for (const Run& run : runs) {
    done += run.complete ? 1 : 0;
    if (error_.empty()) error_ = run.error;
  }
  runs_ += done;
  return !stop_.load(std::memory_order_relaxed);
}

std::vector<Score> SimulatedTrials::screen(const std::vector<Configuration>& configurations,
                                           double share) {
  std::vector<Run> runs;
  for (const Configuration& configuration : configurations) {
    if (screened_.contains({text_of(configuration), share})) continue;
    runs.push_back({configuration, 0, share, {}, "", {}});
  }
  if (!runs.empty() && affordable(runs.size()) && simulate(runs)) {
    for (const Run& run : runs) {
      screened_[{text_of(run.configuration), share}] =
          run.complete ? score_of(judge(experiment_.slo, run.report)) : kNoScore;
    }
  }
  std::vector<Score> scores;
  for (const Configuration& configuration : configurations) {
    const auto known = screened_.find({text_of(configuration), share});
    scores.push_back(known == screened_.end() ? kNoScore : known->second);
  }
  return scores;
}

// Seeds are added while the limit lies within the interval, up to a bound.
Score SimulatedTrials::confirm(const Configuration& configuration) {
  const std::string key = text_of(configuration);
  if (const auto known = confirmed_.find(key); known != confirmed_.end()) return known->second;
  std::vector<sim::SimReport> reports;
  Score score = kNoScore;
  for (uint32_t round = 0; round < kSeedRounds; ++round) {
    std::vector<Run> runs;
    for (uint32_t i = 1; i <= experiment_.seeds; ++i) {
      runs.push_back({configuration, round * experiment_.seeds + i, 1, {}, "", {}});
    }
    if (!affordable(runs.size()) || !simulate(runs)) return score;
    for (Run& run : runs) {
      if (!run.complete) return confirmed_[key] = kNoScore;
      reports.push_back(std::move(run.report));
    }
    const sim::SimReport& report = reports_[key] = sim::average(reports);
    const SloResult result = judge(experiment_.slo, report);
    score = confirmed_[key] = {result.worst_ratio, result.least_ratio};
    if (score.score <= 1 || score.least > 1) break;
  }
  return score;
}

const sim::SimReport* SimulatedTrials::report(const Configuration& configuration) const {
  const auto found = reports_.find(text_of(configuration));
  return found == reports_.end() ? nullptr : &found->second;
}

}  // namespace rubato::planning
