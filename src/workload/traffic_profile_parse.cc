// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "workload/traffic_profile.h"

namespace rubato {
namespace {

using Json = nlohmann::json;

constexpr double kMostFigure = 1e15;
constexpr double kLeastRate = 1e-3;
constexpr size_t kLongestName = 200;

// Reads values by key. After the first that does not fit all others read as their defaults, and
// error() is what is wrong with that one.
class Reader {
 public:
  bool good() const { return error_.empty(); }
  const std::string& error() const { return error_; }

  void refuse(const std::string& where, const std::string& takes) {
    if (good()) error_ = (where.empty() ? "the file" : where) + ": takes " + takes;
  }

  // Null if there is no such key.
  const Json* find(const Json& object, const std::string& at, const char* key) {
    if (!good()) return nullptr;
    if (!object.is_object()) {
      refuse(at, "an object");
      return nullptr;
    }
    const auto found = object.find(key);
    return found == object.end() ? nullptr : &*found;
  }

  // The value of a key that must be there.
  const Json* need(const Json& object, const std::string& at, const char* key,
                   const std::string& takes) {
    const Json* value = find(object, at, key);
    if (value == nullptr) refuse(path(at, key), takes + "; it is missing");
    return value;
  }

  const Json* need_array(const Json& object, const std::string& at, const char* key, size_t least,
                         size_t most, const std::string& of) {
    const std::string takes =
        "an array of " + std::to_string(least) + " to " + std::to_string(most) + " " + of;
    const Json* value = need(object, at, key, takes);
    if (value == nullptr) return nullptr;
    if (value->is_array() && value->size() >= least && value->size() <= most) return value;
    refuse(path(at, key), takes);
    return nullptr;
  }

  uint64_t whole(const Json* value, const std::string& where, uint64_t least, uint64_t most) {
    if (value == nullptr || !good()) return least;
    if (value->is_number_unsigned()) {
      const auto number = value->get<uint64_t>();
      if (number >= least && number <= most) return number;
    }
    refuse(where, "a whole number of " + std::to_string(least) + " to " + std::to_string(most));
    return least;
  }

  double number(const Json* value, const std::string& where, double most) {
    if (value == nullptr || !good()) return 0;
    if (value->is_number()) {
      const auto number = value->get<double>();
      if (number >= 0 && number <= most) return number;
    }
    refuse(where, "a number of 0 to " + Json(most).dump());
    return 0;
  }

  std::string text(const Json* value, const std::string& where) {
    if (value == nullptr || !good()) return "";
    if (value->is_string()) return value->get<std::string>();
    refuse(where, "a text");
    return "";
  }

  // Optional ones.
  uint64_t whole_at(const Json& object, const std::string& at, const char* key, uint64_t most) {
    return whole(find(object, at, key), path(at, key), 0, most);
  }
  double number_at(const Json& object, const std::string& at, const char* key, double most) {
    return number(find(object, at, key), path(at, key), most);
  }

  static std::string path(const std::string& at, const char* key) {
    return at.empty() ? key : at + "." + key;
  }
  static std::string item(const std::string& at, size_t index) {
    return at + "[" + std::to_string(index) + "]";
  }

 private:
  std::string error_;
};

// The line and column (from 1) of a byte.
std::string position(std::string_view text, size_t byte) {
  const std::string_view before = text.substr(0, byte > 0 ? byte - 1 : 0);
  const size_t line = static_cast<size_t>(std::count(before.begin(), before.end(), '\n')) + 1;
  const size_t start = before.rfind('\n');
  const size_t column = before.size() - (start == std::string_view::npos ? 0 : start + 1) + 1;
  return "line " + std::to_string(line) + ", column " + std::to_string(column);
}

void read_server(Reader& read, const Json& file, TrafficProfile& profile) {
  const std::string at = "server";
  const Json* server = read.find(file, "", "server");
  if (server == nullptr) return;
  profile.version = read.text(read.find(*server, at, "version"), "server.version");
  profile.policy = read.text(read.find(*server, at, "policy"), "server.policy");
  profile.workers = static_cast<uint32_t>(read.whole_at(*server, at, "workers", UINT32_MAX));
  profile.utilization = read.number_at(*server, at, "utilization", kMostFigure);
}

void read_arrivals(Reader& read, const Json& file, TrafficProfile& profile) {
  const std::string at = "arrivals";
  const Json* arrivals = read.need(file, "", "arrivals", "an object with rate_rps");
  if (arrivals == nullptr) return;
  ArrivalScales& scales = profile.arrivals;
  const Json* rate = read.need(*arrivals, at, "rate_rps", "requests per second");
  scales.rate_rps = read.number(rate, "arrivals.rate_rps", Arrivals::kMaxRate);
  if (scales.rate_rps < kLeastRate) {
    read.refuse("arrivals.rate_rps", "requests per second, 0.001 at least; a server that has seen "
                                     "fewer than two has none");
  }
  if (const Json* slot = read.find(*arrivals, at, "slot_ns")) {
    const auto most = static_cast<uint64_t>(ArrivalScales::kLongestSlot.count());
    scales.slot = Nanos(static_cast<int64_t>(read.whole(slot, "arrivals.slot_ns", 1, most)));
  }
  if (read.find(*arrivals, at, "allan") != nullptr) {
    const Json* allan = read.need_array(*arrivals, at, "allan", 0, ArrivalScales::kMost, "numbers");
    for (size_t i = 0; allan != nullptr && i < allan->size(); ++i) {
      scales.allan.push_back(read.number(&(*allan)[i], Reader::item("arrivals.allan", i),
                                         ArrivalScales::kMostAllan));
    }
  }
  profile.late = read.whole_at(*arrivals, at, "late", UINT64_MAX);
  profile.gaps = read.whole_at(*arrivals, at, "gaps", UINT64_MAX);
  if (read.good() && !valid(scales)) {
    read.refuse("arrivals.allan", "fewer numbers: the last stands for slots of over 36 years");
  }
}

void read_bucket(Reader& read, const Json& bucket, const std::string& where,
                 std::vector<ServiceBucket>& buckets) {
  const std::string takes =
      "[low, high, count], whole numbers with low < high <= " +
      std::to_string(ServiceTime::kLongest.count()) + ", by rising time";
  const bool three = bucket.is_array() && bucket.size() == 3;
  const auto is_whole = [](const Json& value) { return value.is_number_unsigned(); };
  if (!three || !std::all_of(bucket.begin(), bucket.end(), is_whole)) {
    return read.refuse(where, takes);
  }
  const auto low = bucket[0].get<uint64_t>();
  const auto high = bucket[1].get<uint64_t>();
  const uint64_t from = buckets.empty() ? 0 : static_cast<uint64_t>(buckets.back().high.count());
  if (low < from || low >= high || high > static_cast<uint64_t>(ServiceTime::kLongest.count())) {
    return read.refuse(where, takes);
  }
  buckets.push_back({Nanos(static_cast<int64_t>(low)), Nanos(static_cast<int64_t>(high)),
                     bucket[2].get<uint64_t>()});
}

void read_latency(Reader& read, const Json& type, const std::string& at,
                  TrafficProfile::Latency& latency) {
  const Json* figures = read.find(type, at, "latency_us");
  if (figures == nullptr) return;
  const std::string inside = at + ".latency_us";
  latency.mean_us = read.number_at(*figures, inside, "mean", kMostFigure);
  latency.p50_us = read.number_at(*figures, inside, "p50", kMostFigure);
  latency.p99_us = read.number_at(*figures, inside, "p99", kMostFigure);
  latency.p999_us = read.number_at(*figures, inside, "p999", kMostFigure);
  latency.max_us = read.number_at(*figures, inside, "max", kMostFigure);
}

void read_type(Reader& read, const Json& json, const std::string& at, TrafficProfile& profile) {
  TrafficProfile::Type type;
  const std::string name = at + ".name";
  type.name = read.text(read.need(json, at, "name", "a text"), name);
  const auto same = [&type](const TrafficProfile::Type& t) { return t.name == type.name; };
  const bool taken = std::any_of(profile.types.begin(), profile.types.end(), same);
  if (type.name.empty() || type.name.size() > kLongestName || taken) {
    read.refuse(name, "a text of 1 to " + std::to_string(kLongestName) +
                          " bytes that no other type has");
  }
  const Json* count = read.need(json, at, "count", "a whole number above 0");
  type.count = read.whole(count, at + ".count", 1, UINT64_MAX);
  read_latency(read, json, at, type.latency);
  const Json* buckets = read.need_array(json, at, "service_ns", 1, TrafficProfile::kMostBuckets,
                                        "buckets [low, high, count]");
  const std::string service = at + ".service_ns";
  for (size_t i = 0; read.good() && buckets != nullptr && i < buckets->size(); ++i) {
    read_bucket(read, (*buckets)[i], Reader::item(service, i), type.service);
  }
  const auto holds = [](const ServiceBucket& bucket) { return bucket.count > 0; };
  if (std::none_of(type.service.begin(), type.service.end(), holds)) {
    read.refuse(service, "buckets of which one has a count above 0");
  }
  profile.types.push_back(std::move(type));
}

void read_all(Reader& read, const Json& file, TrafficProfile& profile) {
  const Json* schema = read.need(file, "", "schema", "\"rubato.profile/1\"");
  if (schema != nullptr && *schema != "rubato.profile/1") {
    read.refuse("schema", "\"rubato.profile/1\"");
  }
  read_server(read, file, profile);
  profile.span_s = read.number_at(file, "", "span_s", kMostFigure);
  profile.refused = read.whole_at(file, "", "refused", UINT64_MAX);
  profile.control = read.whole_at(file, "", "control", UINT64_MAX);
  if (const Json* flows = read.find(file, "", "flows")) {
    profile.flows = static_cast<uint32_t>(read.whole(flows, "flows", 1, FlowSpec::kMost));
  }
  read_arrivals(read, file, profile);
  const Json* types =
      read.need_array(file, "", "types", 1, Mix::kMaxRecordedTypes, "request types");
  for (size_t i = 0; read.good() && types != nullptr && i < types->size(); ++i) {
    read_type(read, (*types)[i], Reader::item("types", i), profile);
  }
}

}  // namespace

Result<TrafficProfile> parse_traffic_profile(std::string_view text) {
  Json file;
  try {
    file = Json::parse(text);
  } catch (const Json::parse_error& error) {
    return Error{position(text, error.byte) + " is not JSON"};
  } catch (const Json::exception&) {  // a number beyond all bounds
    return Error{"the file: takes JSON with numbers up to 1e308"};
  }
  Reader read;
  TrafficProfile profile;
  read_all(read, file, profile);
  if (!read.good()) return Error{read.error()};
  return profile;
}

}  // namespace rubato
