// SPDX-License-Identifier: Apache-2.0
//
// The texts from which parts of a WorkloadSpec are made.
#include <algorithm>
#include <charconv>
#include <optional>

#include "workload/duration.h"
#include "workload/source.h"

namespace rubato {
namespace {

std::optional<uint64_t> parse_whole(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

// The text up to the next comma, which is taken away with it.
std::string_view next_field(std::string_view& text) {
  const size_t comma = text.find(',');
  const std::string_view field = trimmed(text.substr(0, comma));
  text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
  return field;
}

Result<RecordedRequest> parse_request(std::string_view line, const Mix& mix) {
  const std::optional<Nanos> at = parse_duration(next_field(line));
  const std::optional<Nanos> service = parse_duration(next_field(line));
  const std::string_view type = next_field(line);
  const std::optional<uint64_t> flow = parse_whole(next_field(line));
  if (!at || !service || *service < Nanos(1) || type.empty() || !flow || !line.empty()) {
    return Error{"is not ARRIVAL_US,SERVICE_US,TYPE,FLOW"};
  }
  const auto named = [type](const RequestType& other) { return other.name == type; };
  const auto found = std::find_if(mix.types().begin(), mix.types().end(), named);
  if (found == mix.types().end()) {
    return Error{"is of type '" + std::string(type) + "', which the workload has not"};
  }
  return RecordedRequest{*at, *service, static_cast<uint32_t>(found - mix.types().begin()), *flow};
}

}  // namespace

Result<FlowSpec> parse_flows(std::string_view text) {
  const size_t colon = text.find(':');
  const std::string_view how = colon == std::string_view::npos ? "" : text.substr(colon + 1);
  const std::optional<uint64_t> count = parse_whole(text.substr(0, colon));
  constexpr std::string_view kZipf = "zipf=";
  FlowSpec flows;
  bool fits = count && *count >= 1 && *count <= FlowSpec::kMost;
  if (fits) flows.count = static_cast<uint32_t>(*count);
  if (how == "in-turn") {
    flows.in_turn = true;
  } else if (how.starts_with(kZipf)) {
    const std::optional<double> exponent = parse_number(how.substr(kZipf.size()));
    fits = fits && exponent && *exponent <= 10;
    if (fits) flows.zipf = *exponent;
  } else {
    fits = fits && colon == std::string_view::npos;
  }
  if (fits) return flows;
  return Error{"flows: '" + std::string(text) +
               "' is not a number of 1 to 1000000, alone or with :zipf=EXPONENT (0 to 10) or "
               ":in-turn"};
}

Result<Phase> parse_phase(std::string_view text) {
  const size_t colon = text.find(':');
  const std::string_view when = text.substr(0, colon);
  const size_t at = when.find('@');
  const std::optional<Nanos> from = parse_duration(when.substr(0, at), Nanos::seconds(1));
  double rate = 0;
  bool fits = from && *from > Nanos() && colon != std::string_view::npos;
  if (at != std::string_view::npos) {
    rate = parse_number(when.substr(at + 1)).value_or(0);
    fits = fits && rate > 0 && rate <= Arrivals::kMaxRate;
  }
  if (!fits) {
    return Error{"phase: '" + std::string(text) +
                 "' is not TIME:MIX or TIME@RATE:MIX, such as 5s:high-bimodal"};
  }
  Result<Mix> mix = parse_mix(text.substr(colon + 1));
  if (!mix) return Error{"phase: " + mix.error()};
  return Phase{*from, std::move(*mix), rate};
}

Result<Misclassification> parse_misclassification(std::string_view text) {
  if (text == "random") return Misclassification{.random = true};
  const std::optional<double> share = parse_number(text);
  if (share && *share <= 1) return Misclassification{.error_rate = *share};
  return Error{"misclassify: '" + std::string(text) + "' is neither random nor a share of 0 to 1"};
}

Result<std::shared_ptr<const RequestTrace>> parse_recording(std::string_view text, const Mix& mix) {
  std::vector<RecordedRequest> requests;
  for (size_t line = 1; !text.empty(); ++line) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view content = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (content.empty() || content.front() == '#') continue;
    Result<RecordedRequest> request = parse_request(content, mix);
    const std::string where = "recording: line " + std::to_string(line);
    if (!request) return Error{where + " " + request.error()};
    if (!requests.empty() && request->at < requests.back().at) {
      return Error{where + " is earlier than the line before it"};
    }
    requests.push_back(*request);
  }
  if (requests.size() < 2 || requests.back().at == requests.front().at) {
    return Error{"recording: needs at least two requests at different times"};
  }
  std::vector<std::string> types;
  for (const RequestType& type : mix.types()) types.push_back(type.name);
  return RequestTrace::of(requests, types);
}

}  // namespace rubato
