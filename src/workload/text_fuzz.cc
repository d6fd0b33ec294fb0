// SPDX-License-Identifier: Apache-2.0
//
// Whatever is written as a workload is refused in one line, or can be drawn from: times do not go
// back, services last, types and flows are in range.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "workload/source.h"

namespace {

using namespace rubato;

constexpr int kDraws = 50;
constexpr uint32_t kMostFlows = 10'000;  // a larger table of shares takes long to make

WorkloadSpec usual() {
  WorkloadSpec spec;
  spec.mixes = {parse_mix("short:1us:9,long:9us:1").value()};
  spec.rate = 1e5;
  return spec;
}

void draw(const WorkloadSpec& spec) {
  RUBATO_CHECK(validate(spec).ok());
  const size_t types = types_of(spec).size();
  RequestSource source(spec, 1);
  Instant last;
  for (int i = 0; i < kDraws; ++i) {
    const Offer offer = source.next();
    RUBATO_CHECK(offer.at >= last && offer.service >= Nanos(1));
    RUBATO_CHECK(offer.type < types && offer.seen_type < types);
    RUBATO_CHECK(spec.trace != nullptr || offer.flow < spec.flows.count);
    last = offer.at;
  }
}

template <class T>
bool good(const Result<T>& parsed) {
  RUBATO_CHECK(parsed.ok() || !parsed.error().empty());
  return parsed.ok();
}

void try_parts(std::string_view text) {
  WorkloadSpec spec = usual();
  if (Result<Mix> mix = parse_mix(text); good(mix)) spec.mixes = {*mix};
  if (Result<ArrivalSpec> arrivals = parse_arrivals(text); good(arrivals)) {
    if (arrivals->shape != ArrivalShape::kTrace) spec.arrivals = *arrivals;
  }
  if (Result<FlowSpec> flows = parse_flows(text); good(flows)) {
    if (flows->count <= kMostFlows) spec.flows = *flows;
  }
  if (Result<Misclassification> wrong = parse_misclassification(text); good(wrong)) {
    spec.misclassification = *wrong;
  }
  draw(spec);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try_parts(text);
  WorkloadSpec spec = usual();
  if (Result<Phase> phase = parse_phase(text); good(phase)) {
    spec.phases = {*phase};
    if (validate(spec).ok()) draw(spec);
  }
  spec = usual();
  if (Result<std::vector<Nanos>> times = parse_trace(text); good(times)) {
    spec.arrivals.shape = ArrivalShape::kTrace;
    spec.times = *times;
    draw(spec);
  }
  spec = usual();
  if (auto recording = parse_recording(text, spec.mixes[0]); good(recording)) {
    spec.trace = *recording;
    spec.rate = spec.trace->rate_rps();
    if (!validate(spec).ok()) return 0;  // more than 1e10 requests per second
    draw(spec);
  }
  return 0;
}
