// SPDX-License-Identifier: Apache-2.0
//
// The tuning search: the fewest workers with which some policy, at some settings, meets
// an SLO. It knows policies and their options, but nothing of simulations: those are its Trials.
// One thread.
//
// How it searches, and why. Workers are what costs, and more of them do not make waiting longer, so
// their number is found by exponential and binary search, first with the defaults of every policy
// (upwards from the fewest that can do the work at all, near which the answer usually is), then
// with their settings (downwards from there). Settings are found by steepest descent over one
// option at a time, of which short runs see all values and longer ones those that did well before:
// successive halving (Jamieson and Talwalkar, "Non-stochastic best arm identification", AISTATS
// 2016). What was found for one number of workers is where the search for the next begins.
// Screening with one seed tells which settings are better, because all are given the same requests;
// the verdict is from other seeds, so that it is not of those that the settings were chosen by.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
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

// The worst figure over its limit, so that 1 or less meets the SLO. Infinity where no score was to
// be had, as after the time for it was over: then a search ends by itself, for nothing seems any
// good.
struct Score {
  double score = 0;
  double least = 0;  // the lower end of its interval, of 95 % confidence
};

// Gives configurations a score.
class Trials {
 public:
  virtual ~Trials() = default;
  // On one seed, in runs of about that share of the full length. The scores, in order.
  virtual std::vector<Score> screen(const std::vector<Configuration>& configurations,
                                    double share) = 0;
  // On all other seeds. The score is that of the upper ends of the intervals.
  virtual Score confirm(const Configuration& configuration) = 0;
};

struct Scored {
  Configuration configuration;
  double score = 0;  // confirmed if it is near 1 or the best of its ranking
  double least = 0;  // likewise
};

struct TuneResult {
  bool met = false;
  bool conceivable = true;  // or it would not be met by limits::kMaxWorkers either
  // The best candidate of each policy, the best of all first, with the chosen number of workers, or
  // the most if no candidate meets the SLO.
  std::vector<Scored> ranking;
  // The best that was found with one worker less; none if that was not tried.
  std::optional<Scored> with_fewer;
};

struct SearchSpace {
  std::vector<std::string> policies;
  TimeRange times;
  uint32_t least_workers = 1, most_workers = 1;
};

// Requires policies, and 1 <= least_workers <= most_workers.
TuneResult tune(Trials& trials, const SearchSpace& space);

}  // namespace rubato::planning
