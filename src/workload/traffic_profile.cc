// SPDX-License-Identifier: Apache-2.0
#include "workload/traffic_profile.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace rubato {
namespace {

using Json = nlohmann::ordered_json;

template <class T>
std::string written(const T& value) {
  return Json(value).dump(-1, ' ', false, Json::error_handler_t::replace);
}

// One line of "key": value pairs.
class Line {
 public:
  template <class T>
  Line& add(const char* key, const T& value) {
    return raw(key, written(value));
  }
  Line& raw(const char* key, const std::string& text) {
    text_ += (text_.empty() ? "\"" : ", \"") + std::string(key) + "\": " + text;
    return *this;
  }
  const std::string& text() const { return text_; }
  std::string object() const { return "{" + text_ + "}"; }

 private:
  std::string text_;
};

double mean_us(const std::vector<ServiceBucket>& buckets) {
  return service_of(buckets).mean.micros();
}

// A bucket per line would be as long as the rest of the file ten times over.
std::string written_buckets(const std::vector<ServiceBucket>& buckets) {
  constexpr size_t kPerLine = 5;
  std::string text = "[";
  for (size_t i = 0; i < buckets.size(); ++i) {
    if (i > 0) text += i % kPerLine == 0 ? ",\n   " : ", ";
    text += "[" + std::to_string(buckets[i].low.count()) + ", " +
            std::to_string(buckets[i].high.count()) + ", " + std::to_string(buckets[i].count) + "]";
  }
  return text + "]";
}

std::string written_type(const TrafficProfile::Type& type) {
  const TrafficProfile::Latency& l = type.latency;
  Line latency, figures;
  latency.add("mean", l.mean_us).add("p50", l.p50_us).add("p99", l.p99_us);
  latency.add("p999", l.p999_us).add("max", l.max_us);
  figures.add("name", type.name).add("count", type.count);
  figures.add("service_mean_us", mean_us(type.service)).raw("latency_us", latency.object());
  return "  {" + figures.text() + ",\n   \"service_ns\": " + written_buckets(type.service) + "}";
}

}  // namespace

std::string to_json(const TrafficProfile& p) {
  Line server, arrivals;
  server.add("version", p.version).add("policy", p.policy).add("workers", p.workers);
  server.add("utilization", p.utilization);
  arrivals.add("rate_rps", p.arrivals.rate_rps).add("slot_ns", p.arrivals.slot.count());
  arrivals.add("allan", p.arrivals.allan).add("late", p.late).add("gaps", p.gaps);
  std::string text = "{\"schema\": \"rubato.profile/1\",\n \"server\": " + server.object() + ",\n";
  Line counts;
  counts.add("span_s", p.span_s).add("refused", p.refused).add("control", p.control);
  if (p.flows > 0) counts.add("flows", p.flows);
  text += " " + counts.text() + ",\n \"arrivals\": " + arrivals.object() + ",\n \"types\": [\n";
  for (const TrafficProfile::Type& type : p.types) {
    text += written_type(type) + (&type == &p.types.back() ? "\n" : ",\n");
  }
  return text + " ]}\n";
}

void use_profile(const TrafficProfile& profile, const std::string& name, WorkloadSpec& workload) {
  std::vector<RequestType> types;
  for (const TrafficProfile::Type& type : profile.types) {
    types.push_back({type.name, service_of(type.service), static_cast<double>(type.count)});
  }
  workload.mixes = {Mix(name, std::move(types))};
  workload.rate = profile.arrivals.rate_rps;
  workload.arrivals = {.shape = ArrivalShape::kProfile};
  workload.scales = profile.arrivals;
  if (profile.flows > 0) workload.flows.count = profile.flows;
}

}  // namespace rubato
