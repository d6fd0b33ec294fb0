// SPDX-License-Identifier: Apache-2.0
//
// Generator: drives a server with a schedule and measures it, on the calling thread, which spins
// for the whole run.
//
// Open loop: the arrival process sets the due times, whatever the server does; latency runs from
// the due time to the reply, so a stalled server is charged for every request it delayed (no
// coordinated omission). Closed loop: each client sends its next request when the last is answered,
// and latency runs from the sending, as classic tools do; it is offered to show the difference.
#pragma once

#include <csignal>
#include <memory>
#include <optional>

#include "base/result.h"
#include "load/core_watch.h"
#include "load/flows.h"
#include "load/options.h"
#include "load/recorder.h"
#include "load/request_source.h"
#include "metrics/run_report.h"
#include "workload/arrivals.h"

namespace rubato::load {

// When the next request of a paced closed loop is due, after the one that was due at `due` and was
// sent at `now` >= due. One that came a gap late or later moves the schedule, so that what could
// not be sent is left out: coordinated omission.
Nanos next_paced(Nanos due, Nanos gap, Nanos now);

class BalancedFlows;

class Generator final : private FlowEvents {
 public:
  // `arrivals` is not used in a closed loop. All references outlive the generator.
  Generator(const LoadOptions& options, RequestSource& source, Arrivals arrivals);

  // Runs once. Ends early, marking the report invalid, when `*stop` becomes non-zero (may be set by
  // a signal handler) or the server has gone away for good after its first replies. Fails with one
  // line if there is nothing to report: no connection, not RESP, the server gone before the first
  // reply, no such process to watch.
  Result<RunReport> run(const volatile std::sig_atomic_t* stop);

  const Recorder& recorder() const { return recorder_; }

 private:
  void on_reply(const Outstanding& request, Instant at) override;
  void on_failed(const Outstanding& request, Outcome outcome, std::string_view text) override;
  void on_lost(const Outstanding& request) override;
  void on_closed() override { recorder_.closed_by_peer(); }

  bool closed_loop() const { return options_.closed_clients > 0; }
  Status open_flows();
  void add_servers(RunReport& report) const;
  // All of the schedule has been sent.
  bool schedule_done() const;
  void send_due(Nanos now);
  void send_closed(Nanos now);
  void send_one(uint32_t flow, Nanos due, Nanos lag);
  void count_unsent();
  void show_progress(Nanos now);
  void look_for_stalls(Nanos now);
  void nap(Nanos now);
  Nanos elapsed() const;

  const LoadOptions& options_;
  RequestSource& source_;
  Arrivals arrivals_;
  Recorder recorder_;
  std::unique_ptr<Flows> flows_;
  BalancedFlows* balanced_ = nullptr;  // of several servers
  std::optional<CoreWatch> watch_;
  std::vector<Stall> stalls_;  // found since the last look
  Nanos next_look_;
  bool warm_ = false;
  Prng request_prng_, flow_prng_;
  std::string bytes_;
  Instant start_;
  Nanos next_due_;
  Nanos blocked_until_;  // the last moment at which no connection was free
  bool next_waited_ = false;
  bool timed_out_ = false;
  Nanos next_progress_ = Nanos::seconds(1);
  uint64_t progress_replies_ = 0;
};

}  // namespace rubato::load
