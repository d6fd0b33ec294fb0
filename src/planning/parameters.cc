// SPDX-License-Identifier: Apache-2.0
#include "planning/parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/option_text.h"
#include "policy/all.h"

namespace rubato::planning {
namespace {

constexpr double kFactors[] = {0.25, 0.5, 2, 4};

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

template <class T>
std::vector<std::string> around(T value) {
  std::vector<std::string> texts;
  if (value == T{}) return texts;
  for (const double factor : kFactors) texts.push_back(text_of(scaled(value, factor)));
  return texts;
}
std::vector<std::string> around(bool value) { return {text_of(!value)}; }

template <Policy P>
bool takes(const std::string& name, const std::string& value) {
  typename P::Config config{};
  return set_option<P>(config, name, value).ok();
}

template <Policy P>
std::vector<Parameter> parameters() {
  std::vector<Parameter> parameters;
  typename P::Config defaults{};
  visit_options<P>(defaults, [&](const OptionInfo& info, auto& field) {
    Parameter parameter{info.name, text_of(field), {}};
    for (const std::string& value : around(field)) {
      auto& values = parameter.alternatives;
      const bool known = std::find(values.begin(), values.end(), value) != values.end();
      if (known || value == parameter.default_value || !takes<P>(parameter.name, value)) continue;
      values.push_back(value);
    }
    if (!parameter.alternatives.empty()) parameters.push_back(std::move(parameter));
  });
  return parameters;
}

}  // namespace

std::vector<Parameter> parameters_of(const std::string& policy) {
  std::vector<Parameter> found;
  with_policy(policy, [&]<class P>(std::type_identity<P>) { found = parameters<P>(); });
  return found;
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
