// SPDX-License-Identifier: Apache-2.0
//
// Recorder: the figures of one run. The generator reports each event with its time; the recorder
// keeps the histograms and the counts, decides whether the run is valid, and fills a RunReport.
// Times are since the start of the run. Requests due before the warm-up ended are not in the
// figures. One owner at a time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "load/options.h"
#include "load/outcome.h"
#include "load/request_source.h"
#include "load/undisturbed.h"
#include "metrics/histogram.h"
#include "metrics/run_report.h"

namespace rubato::load {

// A run is invalid when it could not keep its schedule or lost too much.
inline constexpr Nanos kMaxSendLagP99 = Nanos::millis(1);
inline constexpr double kMaxUnsentShare = 0.001;
inline constexpr double kMaxLostShare = 0.001;
inline constexpr Nanos kTimelineSlice = Nanos::millis(100);

class Recorder {
 public:
  Recorder(const LoadOptions& options, const std::vector<SourceType>& types);

  // True for requests whose due time belongs into the figures.
  bool measured(Nanos due) const { return due >= warmup_; }

  // A measured request of `type` was due; `lag` is its delay before sending that is the generator's
  // fault.
  void sent(uint32_t type, Nanos lag);
  // Measured requests that were due but could not be sent before the end.
  void unsent(uint64_t count) { unsent_ += count; }
  // A reply came at `at`. Service 0 = nominal service time unknown.
  void replied(uint32_t type, Nanos at, Nanos latency, Nanos service, bool is_measured);
  void failed(uint32_t type, Outcome outcome, std::string_view text, bool is_measured);
  // The connection closed before the reply, or the reply did not come in time.
  void lost(uint32_t type, bool timed_out, bool is_measured);
  // One turn of the poll loop took `gap`.
  void turn(Nanos gap);
  // The machine kept a core from the generator or the server. Called in the order of noticing.
  void stalled(const Stall& stall) { undisturbed_.stalled(stall); }
  // All stalls that ended by `now` have been reported; Nanos::max() = no more will come.
  void settle(Nanos now) { undisturbed_.settle(now); }
  // Requests that waited here for an idle connection.
  void waited_for_flow() { ++waited_for_flow_; }
  void closed_by_peer() { ++closed_by_peer_; }
  void interrupted() { interrupted_ = true; }

  // `ran` is the time during which requests were due (the duration, or less if interrupted).
  RunReport report(Nanos ran) const;

  // The reason why the server failed the run: errors, lost requests, or no request served at all;
  // empty if it did not. A report that is invalid for another reason has untrustworthy figures.
  std::string failure() const;

  // For the progress line: all replies so far, and the latencies since the last call.
  uint64_t replies() const { return replies_; }
  uint64_t failures() const { return failures_; }
  Histogram take_recent();

  // For the percentile dump.
  const Histogram& latency_of(uint32_t type) const { return account_[type].latency; }

 private:
  struct TypeStats {
    Histogram latency, slowdown, slice;
    uint64_t sent = 0, refused = 0, errors = 0, lost = 0, expired = 0, overflowed = 0,
             withheld = 0;
  };

  // Sums over the measured requests.
  struct Totals {
    uint64_t requests = 0, served = 0, refused = 0, errors = 0, lost = 0;
  };

  void close_slices_before(Nanos at);
  Totals totals() const;
  uint64_t cut_off() const;
  std::string doubt() const;
  void add_types(RunReport& report, Histogram& all, Histogram& slowdowns) const;
  void add_live_figures(RunReport& report, Nanos ran) const;
  UndisturbedReport undisturbed_report() const;

  const LoadOptions options_;
  const std::vector<SourceType> types_;
  const Nanos warmup_;
  std::vector<TypeStats> account_;
  std::vector<TimelineSlice> timeline_;
  Nanos slice_end_ = kTimelineSlice;
  Undisturbed undisturbed_;
  Histogram send_lag_, recent_;
  uint64_t in_window_ = 0;  // replies between warm-up and end, whenever due
  uint64_t unsent_ = 0, timeouts_ = 0, replies_ = 0, failures_ = 0;
  uint64_t waited_for_flow_ = 0, closed_by_peer_ = 0;
  uint64_t gaps_50us_ = 0, gaps_100us_ = 0, gaps_1ms_ = 0;
  Nanos max_gap_, last_reply_;
  bool interrupted_ = false;
  std::string first_error_;
};

}  // namespace rubato::load
