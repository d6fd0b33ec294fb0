// SPDX-License-Identifier: Apache-2.0
#include "cli/trace/trace_summary.h"

#include <algorithm>
#include <cmath>
#include <compare>
#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>
#include <vector>

namespace rubato::cli {
namespace {

using Json = nlohmann::json;

constexpr double kMostUs = 9e12;  // in ns it is a number that Nanos holds

struct Request {
  std::string type;
  double arrived = 0, first = std::numeric_limits<double>::max(), end = 0, service = 0;
  uint64_t slices = 0, cuts = 0;
  bool finished = false;
};

Nanos nanos(double us) { return Nanos(std::llround(std::max(us, 0.0) * 1e3)); }

// Takes in the events one by one; what is kept is a record per request, and the changes of queues.
class Reader {
 public:
  // False: it is no event of such a trace.
  bool event(const Json& event) {
    const std::string phase = text(event, "ph");
    if (phase == "M") return row(event);
    double at = 0, length = 0;
    if (!number(event, "ts", at)) return false;
    if (phase == "X" && !number(event, "dur", length)) return false;
    first_ = std::min(first_, at);
    last_ = std::max(last_, at + length);
    if (phase == "X" && text(event, "cat") == "request") return slice(event, at, length);
    if (phase == "C") return depth(event, at);
    return phase == "X" || phase == "i";
  }

  bool other(const Json& data) {
    const auto dropped = data.find("events_dropped");
    if (dropped == data.end() || !dropped->is_number_unsigned()) return false;
    summary_.left_out = dropped->get<uint64_t>();
    return number(data, "from", from_);
  }

  TraceSummary finish() {
    if (last_ > first_) summary_.length_us = last_ - first_;
    for (auto& [number, request] : requests_) count(request);
    for (auto& [name, worker] : summary_.workers) {
      if (summary_.length_us > 0) worker.busy /= summary_.length_us;
    }
    for (auto& [name, changes] : depths_) summary_.queues[name] = queue_of(changes);
    return std::move(summary_);
  }

 private:
  struct Change {
    double at;
    size_t place;  // in the file
    uint64_t waiting;
    auto operator<=>(const Change&) const = default;
  };
  using Changes = std::vector<Change>;

  static std::string text(const Json& event, const char* key) {
    const auto found = event.find(key);
    return found != event.end() && found->is_string() ? found->get<std::string>() : "";
  }
  static bool number(const Json& event, const char* key, double& value) {
    const auto found = event.find(key);
    if (found == event.end() || !found->is_number()) return false;
    value = found->get<double>();
    return value >= 0 && value <= kMostUs;
  }
  static bool count_at(const Json& object, const char* key, uint64_t& value) {
    const auto found = object.find(key);
    if (found == object.end() || !found->is_number_unsigned()) return false;
    value = found->get<uint64_t>();
    return true;
  }

  bool row(const Json& event) {
    uint64_t row = 0;
    const auto args = event.find("args");
    if (text(event, "name") != "thread_name") return true;
    if (!count_at(event, "tid", row) || args == event.end()) return false;
    rows_[row] = text(*args, "name");
    return true;
  }

  bool slice(const Json& event, double at, double length) {
    const auto args = event.find("args");
    uint64_t row = 0, id = 0;
    double arrived = 0;
    if (args == event.end() || !count_at(event, "tid", row) || !count_at(*args, "request", id) ||
        !number(*args, "arrived", arrived)) {
      return false;
    }
    TraceSummary::Worker& worker = summary_.workers[rows_[row]];
    ++worker.slices;
    worker.busy += length;
    Request& request = requests_[id];
    request.type = text(event, "name");
    request.arrived = arrived;
    request.first = std::min(request.first, at);
    request.service += length;
    ++request.slices;
    const std::string how = text(*args, "end");
    if (how == "preempted") ++request.cuts;
    if (how == "finished") {
      request.finished = true;
      request.end = at + length;
    }
    return true;
  }

  bool depth(const Json& event, double at) {
    const auto args = event.find("args");
    uint64_t waiting = 0;
    if (args == event.end() || !count_at(*args, "waiting", waiting)) return false;
    Changes& changes = depths_[text(event, "name")];
    changes.push_back({at, changes.size(), waiting});
    return true;
  }

  void count(const Request& request) {
    if (!request.finished || request.arrived <= 0 || request.arrived < from_) return;
    TraceSummary::Type& type = summary_.types[request.type];
    type.slices += request.slices;
    type.cuts += request.cuts;
    type.wait.record(nanos(request.first - request.arrived));
    type.waits.record(nanos(request.end - request.arrived - request.service));
    type.service.record(nanos(request.service));
  }

  TraceSummary::Queue queue_of(Changes& changes) const {
    std::sort(changes.begin(), changes.end());
    TraceSummary::Queue queue;
    for (size_t i = 0; i < changes.size(); ++i) {
      const double until = i + 1 < changes.size() ? changes[i + 1].at : last_;
      queue.mean += static_cast<double>(changes[i].waiting) * (until - changes[i].at);
      queue.most = std::max(queue.most, changes[i].waiting);
    }
    if (summary_.length_us > 0) queue.mean /= summary_.length_us;
    return queue;
  }

  TraceSummary summary_;
  std::unordered_map<uint64_t, Request> requests_;
  std::map<uint64_t, std::string> rows_;
  std::map<std::string, Changes> depths_;
  double first_ = std::numeric_limits<double>::max(), last_ = 0;
  double from_ = 0;  // where the trace begins
};

}  // namespace

Result<TraceSummary> summarize_trace(std::string_view text) {
  Reader reader;
  bool good = true, complete = false;
  // Events are objects in an array in the object; none is kept.
  const auto take = [&](int depth, Json::parse_event_t what, Json& parsed) {
    if (what != Json::parse_event_t::object_end) return true;
    if (depth == 2) {
      good = good && reader.event(parsed);
      return false;
    }
    if (depth == 1) complete = reader.other(parsed);
    return true;
  };
  const Json whole = Json::parse(text, take, false);
  if (whole.is_discarded()) return Error{"is no whole JSON; a trace is once it has ended"};
  if (!whole.is_object() || !whole.contains("traceEvents") || !good || !complete) {
    return Error{"is no trace of `rubato sim --trace` or `rubato serve --trace`"};
  }
  return reader.finish();
}

}  // namespace rubato::cli
