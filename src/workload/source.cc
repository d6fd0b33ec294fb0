// SPDX-License-Identifier: Apache-2.0
#include "workload/source.h"

#include <algorithm>
#include <string>

namespace rubato {
namespace {

enum Stream : uint64_t { kArrivals, kTypes, kFlows, kClassifier, kStreams };

// The seed of one stream of draws. Mixed, because seeds that differ in few bits, or that others
// derive in the same way, must not give draws that have to do with each other.
uint64_t seed_of(uint64_t seed, uint64_t stream) {
  Prng mixer(seed + stream * 0xd6e8feb86659fd93u);
  mixer.next();
  return mixer.next() ^ stream;
}

void add_types(const Mix& mix, std::vector<RequestType>& types) {
  for (const RequestType& type : mix.types()) {
    const auto same = [&type](const RequestType& other) { return other.name == type.name; };
    if (std::none_of(types.begin(), types.end(), same)) types.push_back(type);
  }
}

std::vector<uint32_t> ids_in(const Mix& mix, const std::vector<RequestType>& all) {
  std::vector<uint32_t> ids;
  for (const RequestType& type : mix.types()) {
    const auto same = [&type](const RequestType& other) { return other.name == type.name; };
    ids.push_back(static_cast<uint32_t>(std::find_if(all.begin(), all.end(), same) - all.begin()));
  }
  return ids;
}

// Types that the mix lacks are among its others, or have no requests.
std::vector<uint32_t> ids_in(const RequestTrace& trace, const std::vector<RequestType>& all) {
  const auto id_of = [&all](const std::string& name) {
    return static_cast<uint32_t>(
        std::find_if(all.begin(), all.end(),
                     [&name](const RequestType& type) { return type.name == name; }) -
        all.begin());
  };
  const uint32_t others = id_of(kOtherTypes);
  std::vector<uint32_t> ids;
  for (const RequestTrace::Type& type : trace.types()) {
    const uint32_t id = id_of(type.name);
    ids.push_back(id < all.size() ? id : others);
  }
  return ids;
}

double rate_of(const WorkloadSpec& spec, const Phase& phase) {
  if (phase.rate > 0) return phase.rate;
  return spec.rate * spec.mixes.front().mean_service_ns() / phase.mix.mean_service_ns();
}

bool rate_fits(double rate) { return rate > 0 && rate <= Arrivals::kMaxRate; }

constexpr const char* kRates = "rate: takes a number above 0, up to 1e10 requests per second";

Status validate_trace(const WorkloadSpec& spec) {
  if (spec.trace->first() == spec.trace->last()) {
    return Error{"trace: needs requests at two different times"};
  }
  if (spec.trace_block < Nanos()) return Error{"trace: a block has a length of 0 or more"};
  const auto in_mix = [&spec](const std::string& name) {
    const std::vector<RequestType>& types = spec.mixes.front().types();
    return std::any_of(types.begin(), types.end(),
                       [&name](const RequestType& type) { return type.name == name; });
  };
  for (const RequestTrace::Type& type : spec.trace->types()) {
    if (type.served + type.refused == 0 || in_mix(type.name) || in_mix(kOtherTypes)) continue;
    return Error{"trace: the mix lacks its type '" + type.name + "'"};
  }
  return rate_fits(spec.rate) ? Status(Done{}) : Error{kRates};
}

Status validate_arrivals(const WorkloadSpec& spec) {
  const ArrivalSpec& arrivals = spec.arrivals;
  const bool needs_times = arrivals.shape == ArrivalShape::kTrace;
  if (needs_times && (spec.times.size() < 2 || spec.times.back() <= spec.times.front())) {
    return Error{"arrivals: the trace has no two arrivals at different times"};
  }
  if (arrivals.shape == ArrivalShape::kProfile && !valid(spec.scales)) {
    return Error{"arrivals: what the profile says of them is out of range"};
  }
  const bool batch = arrivals.shape == ArrivalShape::kBatch;
  const double most = batch ? Arrivals::kMostBatch : 1 / Arrivals::kBurstShare;
  const bool usual = arrivals.parameter == 0;
  if (!usual && !(arrivals.parameter >= 1 && arrivals.parameter <= most)) {
    return Error{"arrivals: a batch takes a mean size of 1 to 1e6, a burst a peak of 1 to 10"};
  }
  if (arrivals.burst < Nanos() || arrivals.burst > Arrivals::kLongestBurst) {
    return Error{"arrivals: a burst takes a mean length of up to 1s"};
  }
  return Done{};
}

Status validate_flows(const FlowSpec& flows) {
  if (flows.count < 1 || flows.count > FlowSpec::kMost) {
    return Error{"flows: takes 1 to 1000000 of them"};
  }
  if (!(flows.zipf >= 0 && flows.zipf <= 10)) return Error{"flows: zipf takes 0 to 10"};
  if (flows.in_turn && flows.zipf > 0) return Error{"flows: takes zipf or in-turn, not both"};
  return Done{};
}

Status validate_phases(const WorkloadSpec& spec) {
  Nanos last;
  for (const Phase& phase : spec.phases) {
    if (phase.from <= last) return Error{"phase: times must be above 0 and rise"};
    last = phase.from;
    if (!rate_fits(rate_of(spec, phase))) {
      return Error{"phase: takes rates above 0, up to 1e10 requests per second"};
    }
  }
  if (types_of(spec).size() > Mix::kMaxTypes) return Error{"phase: over 1024 types in all"};
  return Done{};
}

AliasChoice zipf(const FlowSpec& flows) {
  std::vector<double> weights;
  for (uint32_t i = 0; i < flows.count; ++i) {
    const double rank = elementary::logarithm(i + 1.0);
    weights.push_back(elementary::exponential(-flows.zipf * rank));
  }
  return AliasChoice(weights);
}

}  // namespace

Status validate(const WorkloadSpec& spec) {
  if (spec.mixes.size() != 1) return Error{"workload: takes one mix"};
  const double errors = spec.misclassification.error_rate;
  if (!(errors >= 0 && errors <= 1)) return Error{"misclassify: takes a share of 0 to 1"};
  if (spec.trace != nullptr) return validate_trace(spec);
  if (!rate_fits(spec.rate)) {
    return Error{kRates};
  }
  if (Status fits = validate_arrivals(spec); !fits) return fits;
  if (Status fits = validate_flows(spec.flows); !fits) return fits;
  return validate_phases(spec);
}

std::vector<RequestType> types_of(const WorkloadSpec& spec) {
  std::vector<RequestType> types;
  add_types(spec.mixes.front(), types);
  for (const Phase& phase : spec.phases) add_types(phase.mix, types);
  return types;
}

uint64_t recorded_requests(const WorkloadSpec& spec) {
  if (spec.trace != nullptr) return spec.trace->requests();
  return spec.arrivals.shape == ArrivalShape::kTrace ? spec.times.size() : 0;
}

double mean_rate(const WorkloadSpec& spec) { return spec.rate; }

double mean_service_ns(const WorkloadSpec& spec) {
  return spec.trace != nullptr ? spec.trace->mean_service_ns()
                               : spec.mixes.front().mean_service_ns();
}

// Every phase has a stream of arrivals of its own. A trace needs none.
Arrivals RequestSource::arrivals_of(double rate, uint64_t phase) const {
  if (spec_.trace != nullptr) return Arrivals::generate(ArrivalShape::kUniform, 1, 0);
  if (spec_.arrivals.shape == ArrivalShape::kTrace) return Arrivals::replay(spec_.times, rate);
  const uint64_t seed = seed_of(seed_, kArrivals + kStreams * phase);
  if (spec_.arrivals.shape == ArrivalShape::kProfile) {
    return Arrivals::like(spec_.scales, rate, seed);
  }
  return Arrivals::generate(spec_.arrivals, rate, seed);
}

RequestSource::RequestSource(const WorkloadSpec& spec, uint64_t seed)
    : spec_(spec),
      mix_(spec.mixes.front()),
      seed_(seed),
      arrivals_(arrivals_of(spec.rate, 0)),
      types_prng_(seed_of(seed, kTypes)),
      flows_prng_(seed_of(seed, kFlows)),
      classifier_prng_(seed_of(seed, kClassifier)) {
  const std::vector<RequestType> types = types_of(spec);
  types_ = static_cast<uint32_t>(types.size());
  type_ids_ = spec.trace != nullptr ? ids_in(*spec.trace, types) : ids_in(mix_, types);
  if (spec.flows.zipf > 0) flow_choice_ = zipf(spec.flows);
  const Misclassification& wrong = spec.misclassification;
  if (spec.trace != nullptr) replay_.emplace(spec.trace, spec.rate, spec.trace_block, seed);
  plain_ = spec.phases.empty() && spec.trace == nullptr && spec.flows.zipf == 0 &&
           !spec.flows.in_turn && !wrong.random && wrong.error_rate == 0;
}

Offer RequestSource::next_of_any() {
  if (replay_) return next_recorded();
  Instant at = phase_start_ + arrivals_.next();
  while (next_phase_ < spec_.phases.size() && at - Instant() >= spec_.phases[next_phase_].from) {
    change_phase();
    at = phase_start_ + arrivals_.next();
  }
  const Mix::Draw draw = mix_.sample(types_prng_);
  const uint32_t type = type_ids_[draw.type];
  return {at, draw.service, draw_flow(), type, classify(type)};
}

// Arrivals begin anew at the change, so that another rate is in force from there on.
void RequestSource::change_phase() {
  const Phase& phase = spec_.phases[next_phase_++];
  mix_ = phase.mix;
  type_ids_ = ids_in(mix_, types_of(spec_));
  phase_start_ = Instant() + phase.from;
  arrivals_ = arrivals_of(rate_of(spec_, phase), next_phase_);
}

uint64_t RequestSource::draw_flow() {
  if (spec_.flows.in_turn) return flow_turn_++ % spec_.flows.count;
  if (spec_.flows.zipf > 0) return flow_choice_.pick(flows_prng_);
  return flows_prng_.below(spec_.flows.count);
}

uint32_t RequestSource::classify(uint32_t type) {
  const Misclassification& wrong = spec_.misclassification;
  if (wrong.random) return classifier_prng_.below(types_);
  if (wrong.error_rate == 0 || types_ == 1) return type;
  if (classifier_prng_.uniform() >= wrong.error_rate) return type;
  const uint32_t other = classifier_prng_.below(types_ - 1);
  return other < type ? other : other + 1;
}

Offer RequestSource::next_recorded() {
  const RecordedRequest request = replay_->next();
  const uint32_t type = type_ids_[request.type];
  return {Instant() + request.at, request.service, request.flow, type, classify(type)};
}

}  // namespace rubato
