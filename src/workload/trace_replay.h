// SPDX-License-Identifier: Apache-2.0
//
// TraceReplay: the requests of a trace without end: again from the start when they are over, or in
// blocks from random places of it, with their gaps stretched to a rate. Part of RequestSource
// (workload/source.h). One owner; the same arguments give the same requests.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/prng.h"
#include "base/time.h"
#include "workload/request_trace.h"

namespace rubato {

class TraceReplay {
 public:
  // Requires rate > 0 (requests per second). `block` as WorkloadSpec::trace_block has it, 0 = the
  // whole trace, from its start.
  TraceReplay(std::shared_ptr<const RequestTrace> trace, double rate, Nanos block, uint64_t seed);

  // `at` is the time since the start of the run, and never goes back; every request has a service.
  RecordedRequest next();

  // The length of blocks for a trace of which nothing else is known: a twentieth of it, with at
  // least 200 requests on average, and at most the half. Long against the busy periods of a server,
  // short enough to make many of.
  static Nanos usual_block(const RequestTrace& trace);

 private:
  void begin_block();
  Nanos stretched(Nanos at) const;

  std::shared_ptr<const RequestTrace> trace_;
  Nanos block_;
  bool draws_;  // where a block begins
  double stretch_;
  Prng prng_;
  TraceCursor cursor_;
  std::vector<Nanos> last_service_;  // by type of the trace
  Nanos start_;  // of the block, since the first arrival of the trace
  Nanos lap_;    // added to times of the trace that come after its end
  Nanos done_;   // time of the run in blocks before
};

}  // namespace rubato
