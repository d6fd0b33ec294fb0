// SPDX-License-Identifier: Apache-2.0
//
// The tuning search: the fewest workers with which some policy, at some settings, meets
// an SLO. It knows policies and their options, but nothing of simulations: those are its Trials.
// One thread.
//
// How it searches, and why. Workers are what costs, and more of them do not make waiting longer, so
// their number is found by exponential and binary search, first with the defaults of every policy
// (upwards from the fewest that can do the work at all, near which the answer usually is), then
// with their settings (downwards from there, for settings rarely save more than a few workers).
// Settings are found by steepest descent over one option at a time: they are few, and interact
// little. Screening with one seed tells which settings are better, because all are given the same
// requests; the verdict is from other seeds, so that it is not of those that the settings were
// chosen by.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "planning/candidates.h"
#include "planning/parameters.h"

namespace rubato::planning {

struct Configuration {
  uint32_t workers = 1;
  Candidate candidate;
};

// Identifies a configuration: "synergy quantum_factor=4 with 3 workers".
std::string text_of(const Configuration& configuration);

// Gives configurations a score: the worst figure over its limit, so that 1 or less meets the SLO.
// Infinity where no score was to be had, as after the time for it was over: then a search ends by
// itself, for nothing seems any good.
class Trials {
 public:
  virtual ~Trials() = default;
  // On one seed. The scores, in order.
  virtual std::vector<double> screen(const std::vector<Configuration>& configurations) = 0;
  // On all other seeds, with the upper ends of the intervals.
  virtual double confirm(const Configuration& configuration) = 0;
};

struct Scored {
  Configuration configuration;
  double score = 0;  // confirmed
};

struct TuneResult {
  bool met = false;
  bool conceivable = true;  // or it would not be met by limits::kMaxWorkers either
  // The best candidate of each policy, the best of all first, with the chosen number of workers, or
  // the most if no candidate meets the SLO.
  std::vector<Scored> ranking;
};

// Requires policies, and 1 <= least_workers <= most_workers.
TuneResult tune(Trials& trials, const std::vector<std::string>& policies, uint32_t least_workers,
                uint32_t most_workers);

}  // namespace rubato::planning
