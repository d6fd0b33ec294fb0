// SPDX-License-Identifier: Apache-2.0
#include "cli/top/recording.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/top/live_state.h"

namespace rubato::cli {
namespace {

using Json = nlohmann::ordered_json;

Result<Observation> observation_of(std::string_view line) {
  const Json json = Json::parse(line, nullptr, false);
  const auto is = [&json](const char* key, bool (Json::*kind)() const noexcept) {
    return json.is_object() && json.contains(key) && (json[key].*kind)();
  };
  const bool has_state = is("state", &Json::is_object);
  if (!is("at_s", &Json::is_number) || !is("server", &Json::is_string) ||
      has_state == is("trouble", &Json::is_string)) {
    return Error{"takes at_s, server, and state or trouble"};
  }
  Observation one{json["at_s"], json["server"], "", ""};
  if (!has_state) {
    one.trouble = json["trouble"];
    return one;
  }
  one.state = json["state"].dump(-1, ' ', false, Json::error_handler_t::replace);
  if (const auto state = parse_live_state(one.state); !state) return Error{state.error()};
  return one;
}

}  // namespace

std::string recorded(const Observation& observation) {
  Json line = {{"at_s", observation.at_s}, {"server", observation.server}};
  if (observation.state.empty()) {
    line["trouble"] = observation.trouble;
  } else {
    line["state"] = Json::parse(observation.state);
  }
  return line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<std::vector<Observation>> parse_recording(std::string_view text) {
  std::vector<Observation> all;
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos && number > 1) break;
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    Result<Observation> one = observation_of(line);
    if (!one) return Error{"line " + std::to_string(number) + " " + one.error()};
    all.push_back(std::move(*one));
  }
  if (all.empty()) return Error{"holds nothing"};
  std::stable_sort(all.begin(), all.end(),
                   [](const Observation& a, const Observation& b) { return a.at_s < b.at_s; });
  return all;
}

}  // namespace rubato::cli
