// SPDX-License-Identifier: Apache-2.0
#include "planning/tune_trials.h"

#include <limits>

#include "planning/parallel.h"

namespace rubato::planning {
namespace {

constexpr double kNoScore = std::numeric_limits<double>::infinity();

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
        sim::Watch watch;
        watch.progress = progress;
        auto outcome = sim::simulate(candidate.policy, candidate.settings, setup, watch);
        if (!outcome) {
          run.error = outcome.error();
          return true;  // of this configuration only
        }
        run.report = sim::make_report(setup, *outcome);
        run.report.run.policy = candidate.policy;
        run.complete = run.report.run.valid;
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

std::vector<double> SimulatedTrials::screen(const std::vector<Configuration>& configurations) {
  std::vector<Run> runs;
  for (const Configuration& configuration : configurations) {
    if (!screened_.contains(text_of(configuration))) runs.push_back({configuration, 0, {}, "", {}});
  }
  if (!runs.empty() && affordable(runs.size()) && simulate(runs)) {
    for (const Run& run : runs) {
      screened_[text_of(run.configuration)] =
          run.complete ? judge(experiment_.slo, run.report).worst_ratio : kNoScore;
    }
  }
  std::vector<double> scores;
  for (const Configuration& configuration : configurations) {
    const auto known = screened_.find(text_of(configuration));
    scores.push_back(known == screened_.end() ? kNoScore : known->second);
  }
  return scores;
}

double SimulatedTrials::confirm(const Configuration& configuration) {
  const std::string key = text_of(configuration);
  if (const auto known = confirmed_.find(key); known != confirmed_.end()) return known->second;
  std::vector<Run> runs;
  for (uint32_t i = 1; i <= experiment_.seeds; ++i) runs.push_back({configuration, i, {}, "", {}});
  if (!affordable(runs.size()) || !simulate(runs)) return kNoScore;
  std::vector<sim::SimReport> reports;
  for (Run& run : runs) {
    if (!run.complete) return confirmed_[key] = kNoScore;
    reports.push_back(std::move(run.report));
  }
  const sim::SimReport& report = reports_[key] = sim::average(reports);
  return confirmed_[key] = judge(experiment_.slo, report).worst_ratio;
}

const sim::SimReport* SimulatedTrials::report(const Configuration& configuration) const {
  const auto found = reports_.find(text_of(configuration));
  return found == reports_.end() ? nullptr : &found->second;
}

}  // namespace rubato::planning
