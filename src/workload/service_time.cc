// SPDX-License-Identifier: Apache-2.0
#include "workload/service_time.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "workload/duration.h"
#include "workload/elementary.h"
#include "workload/sampling.h"

namespace rubato {
namespace {

struct Distribution {
  std::string_view name;
  ServiceTime::Shape shape;
  double least, most;  // of the second argument; of kUniform it is a time
};
constexpr Distribution kDistributions[] = {
    {"lognormal", ServiceTime::Shape::kLognormal, 0, 5},
    {"pareto", ServiceTime::Shape::kPareto, 0.1, 100},
};

std::optional<ServiceTime> parse_fixed(std::string_view text, ServiceTime::Shape shape) {
  const std::optional<Nanos> mean = parse_duration(trimmed(text));
  if (!mean || *mean < Nanos(1)) return {};
  return ServiceTime{.shape = shape, .mean = *mean};
}

std::optional<ServiceTime> parse_uniform(std::string_view low_text, std::string_view high_text) {
  const std::optional<Nanos> low = parse_duration(low_text);
  const std::optional<Nanos> high = parse_duration(high_text);
  if (!low || !high || *low < Nanos(1) || *high < *low) return {};
  return ServiceTime{.shape = ServiceTime::Shape::kUniform,
                     .mean = (*low + *high) / 2,
                     .spread = static_cast<double>((*high - *low).count()) / 2};
}

// The mean of a Pareto variable from 1 to kParetoSpan.
double mean_of_pareto(double alpha) {
  const double log_span = elementary::logarithm(ServiceTime::kParetoSpan);
  const auto power_of_span = [log_span](double exponent) {
    return elementary::exponential(std::max(exponent * log_span, -700.0));
  };
  const double whole = 1 - power_of_span(-alpha);
  // Near 1 the general form divides nothing by nothing.
  if (alpha > 1 - 1e-6 && alpha < 1 + 1e-6) return log_span / whole;
  return alpha / (alpha - 1) * (1 - power_of_span(1 - alpha)) / whole;
}

// From 1 to kParetoSpan: the exponential of an exponential, without what is beyond.
double sample_pareto(double alpha, Prng& prng) {
  const double log_span = elementary::logarithm(ServiceTime::kParetoSpan);
  double log = sample_exponential(prng) / alpha;
  while (log > log_span) log = sample_exponential(prng) / alpha;
  return elementary::exponential(log);
}

double draw_relative(const ServiceTime& service, Prng& prng) {
  switch (service.shape) {
    case ServiceTime::Shape::kFixed:
    case ServiceTime::Shape::kUniform:
    case ServiceTime::Shape::kHistogram:
      return 1;
    case ServiceTime::Shape::kExponential:
      return sample_exponential(prng);
    case ServiceTime::Shape::kLognormal:
      return service.scale * elementary::exponential(service.spread * sample_normal(prng));
    case ServiceTime::Shape::kPareto:
      return service.scale * sample_pareto(service.spread, prng);
  }
  return 1;
}

}  // namespace

ServiceHistogram::ServiceHistogram(std::vector<ServiceBucket> all) : buckets_(std::move(all)) {
  std::vector<double> weights;
  for (const ServiceBucket& bucket : buckets_) {
    RUBATO_CHECK(bucket.low >= Nanos() && bucket.low < bucket.high);
    weights.push_back(static_cast<double>(bucket.count));
  }
  choice_ = AliasChoice(weights);
}

// A time of 0 counts as the 1 ns that is drawn for it.
double ServiceHistogram::mean_ns() const {
  double sum = 0, count = 0;
  for (const ServiceBucket& bucket : buckets_) {
    const double low = static_cast<double>(std::max<int64_t>(bucket.low.count(), 1));
    const double last = std::max(static_cast<double>(bucket.high.count() - 1), low);
    sum += static_cast<double>(bucket.count) * (low + last) / 2;
    count += static_cast<double>(bucket.count);
  }
  return sum / count;
}

Nanos ServiceHistogram::sample(Prng& prng) const {
  const ServiceBucket& bucket = buckets_[choice_.pick(prng)];
  const double width = static_cast<double>((bucket.high - bucket.low).count());
  const Nanos time = bucket.low + Nanos(static_cast<int64_t>(prng.uniform() * width));
  return std::max(time, Nanos(1));
}

ServiceTime service_of(std::vector<ServiceBucket> buckets) {
  auto histogram = std::make_shared<const ServiceHistogram>(std::move(buckets));
  const auto mean = static_cast<int64_t>(histogram->mean_ns() + 0.5);
  return {.shape = ServiceTime::Shape::kHistogram, .mean = Nanos(mean), .histogram = histogram};
}

double ServiceTime::scale_of(Shape shape, double spread) {
  if (shape == Shape::kLognormal) return elementary::exponential(-spread * spread / 2);
  return shape == Shape::kPareto ? 1 / mean_of_pareto(spread) : 1;
}

Nanos ServiceTime::draw(Prng& prng) const {
  if (shape == Shape::kHistogram) return histogram->sample(prng);
  const double centre = static_cast<double>(mean.count());
  const double ns = shape == Shape::kUniform ? centre + spread * (2 * prng.uniform() - 1)
                                             : centre * draw_relative(*this, prng);
  return rounded(ns);
}

std::optional<ServiceTime> parse_service(std::string_view text) {
  const size_t open = text.find('(');
  if (open == std::string_view::npos) return parse_fixed(text, ServiceTime::Shape::kFixed);
  if (!text.ends_with(')')) return {};
  const std::string_view name = trimmed(text.substr(0, open));
  const std::string_view arguments = text.substr(open + 1, text.size() - open - 2);
  if (name == "exp") return parse_fixed(arguments, ServiceTime::Shape::kExponential);
  const size_t comma = arguments.find(',');
  if (comma == std::string_view::npos) return {};
  const std::string_view first = trimmed(arguments.substr(0, comma));
  const std::string_view second = trimmed(arguments.substr(comma + 1));
  if (name == "uniform") return parse_uniform(first, second);
  for (const Distribution& distribution : kDistributions) {
    if (distribution.name != name) continue;
    std::optional<ServiceTime> service = parse_fixed(first, distribution.shape);
    const std::optional<double> spread = parse_number(second);
    if (!service || !spread) return {};
    if (*spread < distribution.least || *spread > distribution.most) return {};
    service->spread = *spread;
    service->scale = ServiceTime::scale_of(distribution.shape, *spread);
    return service;
  }
  return {};
}

}  // namespace rubato
