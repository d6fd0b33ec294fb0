// SPDX-License-Identifier: Apache-2.0
#include "load/replay_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "workload/trace_replay.h"

namespace rubato::load {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool same_name(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return lower(x) == lower(y); });
}

// The type of that name; else the one whose name differs in case; else the one whose verb it is.
// Nothing if there is none. Fails if several are as near.
Result<std::optional<uint32_t>> find_type(const std::vector<SourceType>& types,
                                          std::string_view name) {
  using Fits = bool (*)(std::string_view known, std::string_view name);
  constexpr Fits kNearest[] = {
      [](std::string_view known, std::string_view wanted) { return known == wanted; },
      same_name,
      [](std::string_view known, std::string_view wanted) {
        return same_name(known.substr(0, known.find('/')), wanted);
      }};
  for (const Fits fits : kNearest) {
    std::optional<uint32_t> found;
    for (uint32_t i = 0; i < types.size(); ++i) {
      if (!fits(types[i].name, name)) continue;
      if (found) {
        return Error{fmt::format("type '{}' of the trace is '{}' or '{}' of the mix: leave one",
                                 name, types[*found].name, types[i].name)};
      }
      found = i;
    }
    if (found) return found;
  }
  return std::optional<uint32_t>();
}

class ReplaySource final : public RequestSource {
 public:
  ReplaySource(std::shared_ptr<const RequestTrace> trace, std::vector<uint32_t> type_of,
               std::unique_ptr<RequestSource> source)
      : replay_(trace, trace->rate_rps(), Nanos(), 0),
        type_of_(std::move(type_of)),
        source_(std::move(source)) {
    types_ = source_->types();
    for (SourceType& type : types_) type.share = 0;
    for (uint32_t i = 0; i < type_of_.size(); ++i) {
      const RequestTrace::Type& recorded = trace->types()[i];
      types_[type_of_[i]].share += static_cast<double>(recorded.served + recorded.refused) /
                                   static_cast<double>(trace->requests());
    }
  }

  Draw draw(Prng& prng, std::string& out) override {
    const RecordedRequest request = replay_.next();
    return source_->make(type_of_[request.type], request.service, prng, out);
  }

  Draw make(uint32_t type, Nanos service, Prng& prng, std::string& out) override {
    return source_->make(type, service, prng, out);
  }

 private:
  TraceReplay replay_;
  std::vector<uint32_t> type_of_;  // of the source, by that of the trace
  std::unique_ptr<RequestSource> source_;
};

}  // namespace

std::vector<Nanos> arrival_times(std::shared_ptr<const RequestTrace> trace) {
  std::vector<Nanos> times;
  times.reserve(trace->requests());
  TraceCursor cursor(std::move(trace));
  while (const std::optional<RecordedRequest> request = cursor.next()) {
    times.push_back(request->at);
  }
  return times;
}

Result<std::unique_ptr<RequestSource>> make_replay_source(
    std::shared_ptr<const RequestTrace> trace, std::unique_ptr<RequestSource> source) {
  std::vector<uint32_t> type_of;
  for (const RequestTrace::Type& recorded : trace->types()) {
    const bool used = recorded.served + recorded.refused > 0;
    Result<std::optional<uint32_t>> found = find_type(source->types(), recorded.name);
    if (found.ok() && !*found) found = find_type(source->types(), kOtherTypes);
    if (!found && used) return Error{found.error()};
    const std::optional<uint32_t> type = found.ok() ? *found : std::nullopt;
    if (!type && used) {
      return Error{fmt::format(
          "the trace has requests of type '{}', for which nothing is in the mix", recorded.name)};
    }
    type_of.push_back(type.value_or(0));
  }
  return std::unique_ptr<RequestSource>(
      std::make_unique<ReplaySource>(std::move(trace), std::move(type_of), std::move(source)));
}

}  // namespace rubato::load
