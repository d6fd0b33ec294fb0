// SPDX-License-Identifier: Apache-2.0
//
// ServerHistory: the states of one server over the last minute, and the differences between them:
// rates, means and percentiles of the last second and the last minute. Histograms are subtracted
// whole, so that percentiles are those of the requests of the interval, not averages. Older states
// are kept as their texts, which are small. Pure but for what it keeps; one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/top/live_state.h"

namespace rubato::cli {

// Of the requests that ended in an interval.
struct Quantiles {
  uint64_t count = 0;
  double p50_us = 0, p99_us = 0, p999_us = 0;
};

struct TypeRow {
  std::string name;
  double rate_per_s = 0;  // these three over the last second
  double wait_us = 0;     // mean, from arrival to the first slice
  double service_us = 0;  // mean
  Quantiles second, minute;
};

struct WorkerRow {
  WorkerState state;
  double busy = 0;  // share of the last second, 0..1
};

struct BlockedRow {
  std::string victim, blocker;
  double rate_per_s = 0;  // over the last minute
  double held_us = 0;     // mean
};

// What there is to show of a server. Rates are per second, over the last second.
struct TopView {
  std::shared_ptr<const LiveState> now;
  double second_s = 0, minute_s = 0;  // true lengths of the intervals; 0 = only one state has come
  double busy = 0;                    // workers busy on average
  double awake = 0;                   // workers awake on average
  std::map<std::string, double> rates;  // of the counters
  TypeRow all;                          // of all types together
  std::vector<TypeRow> types;
  std::vector<WorkerRow> workers;
  std::vector<BlockedRow> blocked;
  std::vector<std::pair<std::string, double>> refused;  // by "reason class", those that happen
};

class ServerHistory {
 public:
  // Takes a state in. One of another process, or of an earlier time, begins the history anew. Fails
  // with one line, and forgets nothing, if the text is none.
  Status add(std::string text);

  bool empty() const { return kept_.empty(); }
  // Requires !empty().
  TopView view() const;

 private:
  struct Kept {
    double time_us = 0;
    std::string text;
  };

  LiveState at_least(double age_us) const;

  std::shared_ptr<const LiveState> now_;
  std::deque<Kept> kept_;  // the oldest first; the last one is now_
};

}  // namespace rubato::cli
