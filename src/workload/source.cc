// SPDX-License-Identifier: Apache-2.0
#include "workload/source.h"

#include <algorithm>

namespace rubato {
namespace {

// Streams of one seed, far apart.
constexpr uint64_t kTypesStream = 0x9e3779b97f4a7c15u;
constexpr uint64_t kFlowsStream = 0xbf58476d1ce4e5b9u;
constexpr uint64_t kClassifierStream = 0x94d049bb133111ebu;
constexpr uint64_t kPhaseStream = 0xd6e8feb86659fd93u;

Arrivals arrivals_at(const WorkloadSpec& spec, double rate, uint64_t seed) {
  if (spec.arrivals.shape == ArrivalShape::kTrace) return Arrivals::replay(spec.times, rate);
  return Arrivals::generate(spec.arrivals.shape, rate, seed, spec.arrivals.parameter);
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
  if (!spec.recording.empty()) return Done{};
  if (!(spec.rate > 0 && spec.rate <= Arrivals::kMaxRate)) {
    return Error{"rate: takes a number above 0, up to 1e9 requests per second"};
  }
  const FlowSpec& flows = spec.flows;
  if (flows.count < 1 || flows.count > FlowSpec::kMost) {
    return Error{"flows: takes 1 to 1000000 of them"};
  }
  if (!(flows.zipf >= 0 && flows.zipf <= 10)) return Error{"flows: zipf takes 0 to 10"};
  if (flows.in_turn && flows.zipf > 0) return Error{"flows: takes zipf or in-turn, not both"};
  if (spec.arrivals.shape == ArrivalShape::kTrace && spec.times.size() < 2) {
    return Error{"arrivals: the trace has no two arrivals"};
  }
  for (size_t i = 1; i < spec.phases.size(); ++i) {
    if (spec.phases[i].from <= spec.phases[i - 1].from) {
      return Error{"phase: times must rise"};
    }
  }
  if (types_of(spec).size() > Mix::kMaxTypes) return Error{"phase: over 64 types in all"};
  const double errors = spec.misclassification.error_rate;
  if (!(errors >= 0 && errors <= 1)) return Error{"misclassify: takes a share of 0 to 1"};
  return Done{};
}

std::vector<RequestType> types_of(const WorkloadSpec& spec) {
  std::vector<RequestType> types;
  add_types(spec.mixes.front(), types);
  for (const Phase& phase : spec.phases) add_types(phase.mix, types);
  return types;
}

double mean_rate(const WorkloadSpec& spec) {
  if (spec.recording.size() < 2) return spec.rate;
  const double span_ns =
      static_cast<double>((spec.recording.back().at - spec.recording.front().at).count());
  return static_cast<double>(spec.recording.size() - 1) / std::max(span_ns, 1.0) * 1e9;
}

double mean_service_ns(const WorkloadSpec& spec) {
  if (spec.recording.empty()) return spec.mixes.front().mean_service_ns();
  double sum = 0;
  for (const RecordedRequest& request : spec.recording) {
    sum += static_cast<double>(request.service.count());
  }
  return sum / static_cast<double>(spec.recording.size());
}

RequestSource::RequestSource(const WorkloadSpec& spec, uint64_t seed)
    : spec_(spec),
      mix_(spec.mixes.front()),
      arrivals_(spec.recording.empty()
                    ? arrivals_at(spec, spec.rate, seed)
                    : Arrivals::generate(ArrivalShape::kUniform, 1, seed)),
      seed_(seed),
      types_prng_(seed ^ kTypesStream),
      flows_prng_(seed ^ kFlowsStream),
      classifier_prng_(seed ^ kClassifierStream) {
  const std::vector<RequestType> types = types_of(spec);
  types_ = static_cast<uint32_t>(types.size());
  type_ids_ = ids_in(mix_, types);
  if (spec.flows.zipf > 0) flow_choice_ = zipf(spec.flows);
  const Misclassification& wrong = spec.misclassification;
  plain_ = spec.phases.empty() && spec.recording.empty() && spec.flows.zipf == 0 &&
           !spec.flows.in_turn && !wrong.random && wrong.error_rate == 0;
}

Offer RequestSource::next_of_any() {
  if (!spec_.recording.empty()) return next_recorded();
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
  const double rate = phase.rate > 0 ? phase.rate : spec_.rate;
  arrivals_ = arrivals_at(spec_, rate, seed_ ^ (kPhaseStream * next_phase_));
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

// A recording that is repeated goes on one mean gap after its last request.
Offer RequestSource::next_recorded() {
  if (recorded_ == spec_.recording.size()) {
    recorded_ = 0;
    const Nanos span = spec_.recording.back().at - spec_.recording.front().at;
    lap_start_ += span + Nanos(static_cast<int64_t>(1e9 / mean_rate(spec_)));
  }
  const RecordedRequest& request = spec_.recording[recorded_++];
  const Instant at = Instant() + lap_start_ + (request.at - spec_.recording.front().at);
  return {at, request.service, request.flow, request.type, classify(request.type)};
}

}  // namespace rubato
