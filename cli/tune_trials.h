// SPDX-License-Identifier: Apache-2.0
//
// The trials of `rubato tune` as simulated runs: a batch at a time on a few threads, each once, and
// no more than a given number in all. Main thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cli/progress.h"
#include "cli/sim_options.h"
#include "cli/tune_search.h"
#include "sim/report.h"

namespace rubato::cli {

class SimulatedTrials : public Trials {
 public:
  // Options with a rate, an SLO, and seeds: --seed is for screening, so many after it confirm.
  // Simulates nothing after `most_runs`, or when `stop` becomes true. `line` must live as long as
  // there is something to simulate.
  SimulatedTrials(const SimOptions& options, uint64_t most_runs, Progress& line,
                  const std::atomic<bool>& stop)
      : options_(options), most_runs_(most_runs), line_(line), stop_(stop) {}

  std::vector<double> screen(const std::vector<Configuration>& configurations) override;
  double confirm(const Configuration& configuration) override;

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
    sim::SimReport report;
    std::string error;
    bool complete = false;
  };

  bool affordable(uint64_t runs);
  bool simulate(std::vector<Run>& runs);

  const SimOptions& options_;
  uint64_t most_runs_;
  Progress& line_;
  const std::atomic<bool>& stop_;
  uint64_t runs_ = 0;
  bool exhausted_ = false;
  std::string error_;
  std::map<std::string, double> screened_;
  std::map<std::string, double> confirmed_;
  std::map<std::string, sim::SimReport> reports_;
};

}  // namespace rubato::cli
