// SPDX-License-Identifier: Apache-2.0
//
// The trials of a tuning search as simulated runs: a batch at a time on a few threads, each once,
// and no more than a given number in all. One thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "planning/experiment.h"
#include "planning/tune_search.h"
#include "sim/report.h"

namespace rubato::planning {

class SimulatedTrials : public Trials {
 public:
  // Called now and then with the runs that are done, and the workers of those that are tried.
  using ShowProgress = std::function<void(double runs, uint32_t workers)>;

  // An experiment with a rate, an SLO, and seeds: the setup's is for screening, so many after it
  // confirm, or a few times as many where it is close. Simulates nothing after `most_runs`,
  // or when `stop` becomes true.
  SimulatedTrials(const Experiment& experiment, uint64_t most_runs, const std::atomic<bool>& stop,
                  ShowProgress show_progress)
      : experiment_(experiment),
        most_runs_(most_runs),
        stop_(stop),
        show_progress_(std::move(show_progress)) {}

  std::vector<Score> screen(const std::vector<Configuration>& configurations,
                            double share) override;
  Score confirm(const Configuration& configuration) override;

  // What was confirmed, or null. Valid until the next call that is not const.
  const sim::SimReport* report(const Configuration& configuration) const;

  uint64_t runs() const { return runs_; }
  bool exhausted() const { return exhausted_; }  // more runs were wanted than there may be
  // Why a configuration cannot be simulated, if there was one: it counts as infinitely bad.
  const std::string& error() const { return error_; }

 private:
  struct Run {
    Configuration configuration;
    uint32_t seed_index;
    double share = 1;  // of the full length
    sim::SimReport report;
    std::string error;
    bool complete = false;
  };

  bool affordable(uint64_t runs);
  bool simulate(std::vector<Run>& runs);

  const Experiment& experiment_;
  uint64_t most_runs_;
  const std::atomic<bool>& stop_;
  ShowProgress show_progress_;
  uint64_t runs_ = 0;
  bool exhausted_ = false;
  std::string error_;
  // By configuration; those that were screened by their length as well.
  std::map<std::pair<std::string, double>, Score> screened_;
  std::map<std::string, Score> confirmed_;
  std::map<std::string, sim::SimReport> reports_;
};

}  // namespace rubato::planning
