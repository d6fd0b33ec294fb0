// SPDX-License-Identifier: Apache-2.0
#include "planning/parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/option_text.h"
#include "policy/all.h"
#include "workload/duration.h"

namespace rubato::planning {
namespace {

constexpr double kFactors[] = {0.125, 0.25, 0.5, 2, 4, 8};
constexpr double kAround[] = {0.5, 2};  // of a time
constexpr double kShorter = 0.25, kLonger = 4;
constexpr double kStep = 2;
constexpr const char* kQuantum = "quantum";  // of ps, shinjuku and their like

std::string text_of(Nanos value) { return format_time(value); }
std::string text_of(uint32_t value) { return fmt::format("{}", value); }
std::string text_of(double value) { return fmt::format("{:.10g}", value); }
std::string text_of(bool value) { return value ? "on" : "off"; }

Nanos scaled(Nanos value, double factor) {
  return Nanos(std::llround(static_cast<double>(value.count()) * factor));
}
uint32_t scaled(uint32_t value, double factor) {
  return static_cast<uint32_t>(std::lround(value * factor));
}
double scaled(double value, double factor) { return value * factor; }

// Two digits are enough to try.
Nanos rounded(Nanos time) {
  const auto ns = static_cast<double>(time.count());
  const double unit = std::pow(10, std::max(std::floor(std::log10(ns)) - 1, 0.0));
  return Nanos(static_cast<int64_t>(std::round(ns / unit) * unit));
}

template <class T>
std::vector<std::string> around(T value, const TimeRange&) {
  std::vector<std::string> texts;
  if (value == T{}) return texts;
  for (const double factor : kFactors) texts.push_back(text_of(scaled(value, factor)));
  return texts;
}
std::vector<std::string> around(bool value, const TimeRange&) { return {text_of(!value)}; }
std::vector<std::string> around(Nanos value, const TimeRange& range) {
  std::vector<Nanos> times;
  for (Nanos time = range.least; time <= range.most; time = scaled(time, kStep)) {
    times.push_back(rounded(time));
  }
  for (const double factor : kAround) {
    if (value > Nanos()) times.push_back(scaled(value, factor));
  }
  std::sort(times.begin(), times.end());
  std::vector<std::string> texts;
  for (const Nanos time : times) texts.push_back(text_of(time));
  return texts;
}

template <Policy P>
bool takes(const std::string& name, const std::string& value) {
  typename P::Config config{};
  return set_option<P>(config, name, value).ok();
}

// A quantum that cuts even the shortest requests many times costs much to simulate, for nothing.
bool too_short(const std::string& name, const std::string& value, const TimeRange& range) {
  return name == kQuantum && *parse_duration(value) < rounded(range.least);
}

template <Policy P>
std::vector<Parameter> parameters(const TimeRange& range) {
  std::vector<Parameter> parameters;
  typename P::Config defaults{};
  visit_options<P>(defaults, [&](const OptionInfo& info, auto& field) {
    Parameter parameter{info.name, text_of(field), {}};
    for (const std::string& value : around(field, range)) {
      auto& values = parameter.alternatives;
      const bool known = std::find(values.begin(), values.end(), value) != values.end();
      if (known || value == parameter.default_value || !takes<P>(parameter.name, value)) continue;
      if (too_short(parameter.name, value, range)) continue;
      values.push_back(value);
    }
    if (!parameter.alternatives.empty()) parameters.push_back(std::move(parameter));
  });
  return parameters;
}

}  // namespace

TimeRange times_of(const sim::Setup& setup) {
  Nanos least = Nanos::max(), most;
  for (const RequestType& type : types_of(setup.workload)) {
    least = std::min(least, type.service.mean);
    most = std::max(most, type.service.mean);
  }
  const sim::Costs::Preemption& price = setup.costs.preemption;
  const Nanos cut = price.arm.typical + price.receive.typical + price.done.typical;
  least = std::max({scaled(least, kShorter), cut, Nanos(100)});
  return {least, std::max(scaled(most, kLonger), least)};
}

std::vector<Parameter> parameters_of(const std::string& policy, const TimeRange& range) {
  std::vector<Parameter> found;
  with_policy(policy, [&]<class P>(std::type_identity<P>) { found = parameters<P>(range); });
  return found;
}

sim::Settings start_of(const std::string& policy, const TimeRange& range) {
  for (const Parameter& parameter : parameters_of(policy, range)) {
    if (!too_short(parameter.name, parameter.default_value, range)) continue;
    return {{kQuantum, text_of(rounded(range.least))}};
  }
  return {};
}

sim::Settings with_parameter(sim::Settings settings, const Parameter& parameter,
                             const std::string& value) {
  std::erase_if(settings, [&](const auto& setting) { return setting.first == parameter.name; });
  if (value != parameter.default_value) settings.emplace_back(parameter.name, value);
  std::sort(settings.begin(), settings.end());
  return settings;
}

const std::string& value_of(const sim::Settings& settings, const Parameter& parameter) {
  for (const auto& [name, value] : settings) {
    if (name == parameter.name) return value;
  }
  return parameter.default_value;
}

}  // namespace rubato::planning
