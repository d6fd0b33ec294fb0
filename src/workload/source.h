// SPDX-License-Identifier: Apache-2.0
//
// RequestSource: the requests of an open-loop run, one after the other: when each is due, of which
// type and flow, how long its service takes, and what type a classifier takes it for. The same spec
// and seed give the same requests on every platform and for every consumer (the simulator, a live
// generator), and changing one aspect does not change the draws of the others. A source belongs to
// one owner at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/prng.h"
#include "base/result.h"
#include "base/time.h"
#include "workload/arrivals.h"
#include "workload/mix.h"
#include "workload/request_trace.h"
#include "workload/sampling.h"
#include "workload/trace_replay.h"

namespace rubato {

// Which flow a request belongs to.
struct FlowSpec {
  static constexpr uint32_t kMost = 1'000'000;
  uint32_t count = 512;  // 1 to kMost
  double zipf = 0;       // flow i has a share in proportion to 1 / (i+1)^zipf; 0 to 10, 0 = equal
  bool in_turn = false;  // round-robin, as the generator of Synergy sends; needs zipf 0
};

// From `from` on the mix is another: shares, service times, or the rate (Persephone, 5.5).
struct Phase {
  Nanos from;
  Mix mix;
  double rate = 0;  // requests per second; 0 = so many that the load stays what it was at first
};

// What the classifier gets wrong.
struct Misclassification {
  bool random = false;    // it takes each request for any type, all equally likely (Persephone 5.6)
  double error_rate = 0;  // share of requests that it takes for another type; 0 to 1
};

struct WorkloadSpec {
  std::vector<Mix> mixes;  // the first is the one to begin with; exactly one
  double rate = 0;         // requests per second, above 0
  ArrivalSpec arrivals;    // of kTrace: `times` is what the file holds
  std::vector<Nanos> times;
  ArrivalScales scales;    // of kProfile: what the recording says of its arrivals
  FlowSpec flows;
  std::vector<Phase> phases;  // by rising time
  Misclassification misclassification;
  // If set: these requests, repeated from the start when they end, with their gaps stretched so
  // that they come at `rate`. Arrivals, flows and phases are not used then. The mix has their
  // types, by name, or kOtherTypes for them. A refused request has the service time of the one of
  // its type that was served before it.
  std::shared_ptr<const RequestTrace> trace;
  // Above 0: not in their order, but in blocks of that length of the trace, each from a place
  // drawn at random (Kuensch, Annals of Statistics 1989; circular: Politis and Romano, 1992), so
  // that seeds differ as other recordings of the same traffic would.
  Nanos trace_block;
};

// Done, or one line that names what does not fit.
Status validate(const WorkloadSpec& spec);

// What Offer::type indexes: the types of the mix, then those that only phases have. Types of one
// name are one type; its service time is that of the first mix it is in.
std::vector<RequestType> types_of(const WorkloadSpec& spec);

// Requests, or arrivals, that are recorded and come again after the last; 0 = none are.
uint64_t recorded_requests(const WorkloadSpec& spec);

// Of the time before the first phase change.
double mean_rate(const WorkloadSpec& spec);
double mean_service_ns(const WorkloadSpec& spec);

struct Offer {
  Instant at;              // since the start of the run
  Nanos service;           // at least 1 ns
  uint64_t flow = 0;       // 0 .. flows-1
  uint32_t type = 0;       // index into types_of
  uint32_t seen_type = 0;  // what the classifier takes it for
};

class RequestSource {
 public:
  // Requires a valid spec.
  RequestSource(const WorkloadSpec& spec, uint64_t seed);

  // Endless; `at` never goes back.
  Offer next() {
    Offer offer;
    next(offer);
    return offer;
  }
  // The same in place: a copy of what has just been written would wait for it.
  void next(Offer& to) {
    if (!plain_) [[unlikely]] {
      to = next_of_any();
      return;
    }
    to.at = Instant() + arrivals_.next();
    const Mix::Draw draw = mix_.sample(types_prng_);
    to.service = draw.service;
    to.flow = flows_prng_.below(spec_.flows.count);
    to.type = draw.type;
    to.seen_type = draw.type;
  }

 private:
  Offer next_of_any();
  Offer next_recorded();
  Arrivals arrivals_of(double rate, uint64_t phase) const;
  void change_phase();
  uint64_t draw_flow();
  uint32_t classify(uint32_t type);

  WorkloadSpec spec_;
  Mix mix_;
  uint64_t seed_;
  Arrivals arrivals_;
  bool plain_;  // one mix, uniformly random flows, a perfect classifier
  Prng types_prng_;
  Prng flows_prng_;
  Prng classifier_prng_;
  uint32_t types_;                  // in all
  std::vector<uint32_t> type_ids_;  // of the mix in force
  AliasChoice flow_choice_;
  uint64_t flow_turn_ = 0;
  size_t next_phase_ = 0;
  Instant phase_start_;
  std::optional<TraceReplay> replay_;
};

// `8`, `512:zipf=0.99`, `512:in-turn`: a number of flows and how requests choose among them.
Result<FlowSpec> parse_flows(std::string_view text);

// `TIME:MIX` or `TIME@RATE:MIX` (bare times are seconds): `5s:short:500us:50,long:0.5us:50`,
// `5s@200000:high-bimodal`. Without a rate the load, rate times mean service time, stays the same.
Result<Phase> parse_phase(std::string_view text);

// `random`, or a share of errors such as `0.05`.
Result<Misclassification> parse_misclassification(std::string_view text);

// One request per line: arrival and service time in microseconds, name of the type, number of the
// flow, joined by commas; blank lines and lines that start with '#' are skipped. Times do not fall.
Result<std::shared_ptr<const RequestTrace>> parse_recording(std::string_view text, const Mix& mix);

}  // namespace rubato
