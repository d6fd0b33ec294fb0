// SPDX-License-Identifier: Apache-2.0
#include "cli/serve/otlp_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

namespace rubato::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kServer = 2;      // SPAN_KIND_SERVER
constexpr int kError = 2;       // STATUS_CODE_ERROR
constexpr int kCumulative = 2;  // AGGREGATION_TEMPORALITY_CUMULATIVE

Json attribute(std::string_view key, std::string_view value) {
  return {{"key", key}, {"value", {{"stringValue", value}}}};
}

Json attribute(std::string_view key, int64_t value) {
  return {{"key", key}, {"value", {{"intValue", std::to_string(value)}}}};
}

Json resource_json(const OtlpResource& resource) {
  return {{"attributes",
           Json::array({attribute("service.name", resource.service),
                        attribute("service.version", resource.version),
                        attribute("service.instance.id", resource.instance)})}};
}

Json scope_json(const OtlpResource& resource) {
  return {{"name", "rubato"}, {"version", resource.version}};
}

Json span_json(const OtlpSpan& span) {
  Json json = {{"traceId", fmt::format("{:016x}{:016x}", span.trace_high, span.trace_low)},
               {"spanId", fmt::format("{:016x}", span.id)},
               {"name", span.name},
               {"kind", kServer},
               {"startTimeUnixNano", std::to_string(span.start_ns)},
               {"endTimeUnixNano", std::to_string(span.end_ns)},
               {"attributes",
                Json::array({attribute("rubato.service_ns", span.service_ns),
                             attribute("rubato.wait_ns",
                                       span.end_ns - span.start_ns - span.service_ns),
                             attribute("rubato.flow", static_cast<int64_t>(span.flow))})}};
  if (span.refused) json["status"] = {{"code", kError}, {"message", "refused"}};
  return json;
}

std::string text_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// ---- Expositions ------------------------------------------------------------------------------

using Labels = std::vector<std::pair<std::string, std::string>>;

struct Sample {
  std::string suffix;  // behind the name of the family
  Labels labels;
  double value = 0;
};

struct Family {
  std::string name, kind, help;
  std::vector<Sample> samples;
};

std::string unescaped(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 1 < text.size()) {
      ++i;
      plain += text[i] == 'n' ? '\n' : text[i];
    } else {
      plain += text[i];
    }
  }
  return plain;
}

// `text` begins behind the brace; afterwards it begins behind the one that closes.
Labels labels_in(std::string_view& text) {
  Labels labels;
  while (!text.empty() && text.front() != '}') {
    const size_t equals = text.find("=\"");
    if (equals == std::string_view::npos) break;
    size_t end = equals + 2;
    while (end < text.size() && text[end] != '"') end += text[end] == '\\' ? 2u : 1u;
    labels.emplace_back(text.substr(0, equals),
                        unescaped(text.substr(equals + 2, end - equals - 2)));
    text.remove_prefix(std::min(text.size(), end + 1));
    if (!text.empty() && text.front() == ',') text.remove_prefix(1);
  }
  text.remove_prefix(std::min<size_t>(text.size(), 1));
  return labels;
}

std::optional<double> number_in(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  double value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  return problem == std::errc() ? std::optional(value) : std::nullopt;
}

class Exposition {
 public:
  explicit Exposition(std::string_view text) {
    while (!text.empty()) {
      const size_t end = std::min(text.find('\n'), text.size());
      line(text.substr(0, end));
      text.remove_prefix(std::min(text.size(), end + 1));
    }
  }
  const std::vector<Family>& families() const { return families_; }

 private:
  void line(std::string_view text) {
    if (text.starts_with("# TYPE ")) {
      const auto [name, kind] = name_and_rest(text.substr(7));
      of(name).kind = kind;
    } else if (text.starts_with("# HELP ")) {
      const auto [name, help] = name_and_rest(text.substr(7));
      of(name).help = unescaped(help);
    } else if (!text.empty() && text.front() != '#' && !families_.empty()) {
      sample(text);
    }
  }

  static std::pair<std::string, std::string> name_and_rest(std::string_view text) {
    const size_t blank = std::min(text.find(' '), text.size());
    return {std::string(text.substr(0, blank)),
            std::string(text.substr(std::min(text.size(), blank + 1)))};
  }

  Family& of(const std::string& name) {
    if (families_.empty() || families_.back().name != name) families_.push_back({name, "", "", {}});
    return families_.back();
  }

  void sample(std::string_view text) {
    Family& family = families_.back();
    const size_t end = std::min(text.find_first_of("{ "), text.size());
    const std::string_view name = text.substr(0, end);
    if (!name.starts_with(family.name)) return;
    Sample sample{std::string(name.substr(family.name.size())), {}, 0};
    text.remove_prefix(end);
    if (!text.empty() && text.front() == '{') {
      text.remove_prefix(1);
      sample.labels = labels_in(text);
    }
    const std::optional<double> value = number_in(text);
    if (!value) return;
    sample.value = *value;
    family.samples.push_back(std::move(sample));
  }

  std::vector<Family> families_;
};

// ---- Data points ------------------------------------------------------------------------------

struct Times {
  int64_t start_ns, now_ns;
};

Json point(const Labels& labels, const Times& times) {
  Json attributes = Json::array();
  for (const auto& [key, value] : labels) attributes.push_back(attribute(key, value));
  return {{"attributes", std::move(attributes)},
          {"startTimeUnixNano", std::to_string(times.start_ns)},
          {"timeUnixNano", std::to_string(times.now_ns)}};
}

// Histograms and summaries: the samples of one set of labels become one point. Their buckets are
// cumulative here, and each on its own in OTLP.
Json distribution_points(const Family& family, const Times& times) {
  struct Point {
    double count = 0, sum = 0, below = 0;
    Json bounds = Json::array(), counts = Json::array();
  };
  std::map<Labels, Point> points;
  const bool buckets = family.kind == "histogram";
  for (const Sample& sample : family.samples) {
    Labels labels = sample.labels;
    std::string bound;
    if (sample.suffix == "_bucket") {
      std::erase_if(labels, [&bound](const auto& label) {
        if (label.first == "le") bound = label.second;
        return label.first == "le";
      });
    }
    Point& point = points[labels];
    if (sample.suffix == "_count") point.count = sample.value;
    if (sample.suffix == "_sum") point.sum = sample.value;
    if (sample.suffix != "_bucket") continue;
    point.counts.push_back(fmt::format("{:.0f}", sample.value - point.below));
    point.below = sample.value;
    if (const auto upper = number_in(bound); upper && bound != "+Inf") {
      point.bounds.push_back(*upper);
    }
  }
  Json all = Json::array();
  for (auto& [labels, of_labels] : points) {
    Json json = point(labels, times);
    json["count"] = fmt::format("{:.0f}", of_labels.count);
    json["sum"] = of_labels.sum;
    if (buckets) {
      json["bucketCounts"] = std::move(of_labels.counts);
      json["explicitBounds"] = std::move(of_labels.bounds);
    } else {
      json["quantileValues"] = Json::array();
    }
    all.push_back(std::move(json));
  }
  return all;
}

Json number_points(const Family& family, const Times& times) {
  Json all = Json::array();
  for (const Sample& sample : family.samples) {
    Json json = point(sample.labels, times);
    json["asDouble"] = sample.value;
    all.push_back(std::move(json));
  }
  return all;
}

Json metric_json(const Family& family, const Times& times) {
  Json json = {{"name", family.name}, {"description", family.help}};
  if (family.kind == "counter") {
    json["sum"] = {{"dataPoints", number_points(family, times)},
                   {"aggregationTemporality", kCumulative},
                   {"isMonotonic", true}};
  } else if (family.kind == "histogram") {
    json["histogram"] = {{"dataPoints", distribution_points(family, times)},
                         {"aggregationTemporality", kCumulative}};
  } else if (family.kind == "summary") {
    json["summary"] = {{"dataPoints", distribution_points(family, times)}};
  } else {
    json["gauge"] = {{"dataPoints", number_points(family, times)}};
  }
  return json;
}

}  // namespace

std::string otlp_traces(const OtlpResource& resource, const std::vector<OtlpSpan>& spans) {
  Json all = Json::array();
  for (const OtlpSpan& span : spans) all.push_back(span_json(span));
  const Json of_scope = {{"scope", scope_json(resource)}, {"spans", std::move(all)}};
  const Json of_resource = {{"resource", resource_json(resource)},
                            {"scopeSpans", Json::array({of_scope})}};
  return text_of({{"resourceSpans", Json::array({of_resource})}});
}

std::string otlp_metrics(const OtlpResource& resource, std::string_view exposition,
                         int64_t start_ns, int64_t now_ns) {
  const Exposition parsed(exposition);
  Json all = Json::array();
  for (const Family& family : parsed.families()) {
    if (!family.samples.empty()) all.push_back(metric_json(family, {start_ns, now_ns}));
  }
  const Json of_scope = {{"scope", scope_json(resource)}, {"metrics", std::move(all)}};
  const Json of_resource = {{"resource", resource_json(resource)},
                            {"scopeMetrics", Json::array({of_scope})}};
  return text_of({{"resourceMetrics", Json::array({of_resource})}});
}

OtlpPartial otlp_partial(std::string_view body) {
  const Json reply = Json::parse(body, nullptr, false);
  if (!reply.is_object() || !reply.contains("partialSuccess")) return {};
  const Json& partial = reply["partialSuccess"];
  OtlpPartial found;
  for (const char* key : {"rejectedSpans", "rejectedDataPoints"}) {
    if (!partial.is_object() || !partial.contains(key)) continue;
    const Json& rejected = partial[key];
    if (rejected.is_number_unsigned()) found.rejected = rejected.get<uint64_t>();
    if (!rejected.is_string()) continue;
    const std::string& digits = rejected.get_ref<const std::string&>();
    std::from_chars(digits.data(), digits.data() + digits.size(), found.rejected);
  }
  if (found.rejected > 0 && partial.contains("errorMessage") &&
      partial["errorMessage"].is_string()) {
    found.why = partial["errorMessage"].get<std::string>();
  }
  return found;
}

}  // namespace rubato::cli
