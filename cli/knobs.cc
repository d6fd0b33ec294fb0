// SPDX-License-Identifier: Apache-2.0
#include "cli/knobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/option_text.h"
#include "policy/all.h"

namespace rubato::cli {
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
std::vector<Knob> knobs() {
  std::vector<Knob> knobs;
  typename P::Config defaults{};
  visit_options<P>(defaults, [&](const OptionInfo& info, auto& field) {
    Knob knob{info.name, text_of(field), {}};
    for (const std::string& value : around(field)) {
      auto& values = knob.alternatives;
      const bool known = std::find(values.begin(), values.end(), value) != values.end();
      if (known || value == knob.standard || !takes<P>(knob.name, value)) continue;
      values.push_back(value);
    }
    if (!knob.alternatives.empty()) knobs.push_back(std::move(knob));
  });
  return knobs;
}

}  // namespace

std::vector<Knob> knobs_of(const std::string& policy) {
  std::vector<Knob> found;
  with_policy(policy, [&]<class P>(std::type_identity<P>) { found = knobs<P>(); });
  return found;
}

sim::Settings with_knob(sim::Settings settings, const Knob& knob, const std::string& value) {
  std::erase_if(settings, [&](const auto& setting) { return setting.first == knob.name; });
  if (value != knob.standard) settings.emplace_back(knob.name, value);
  std::sort(settings.begin(), settings.end());
  return settings;
}

const std::string& value_of(const sim::Settings& settings, const Knob& knob) {
  for (const auto& [name, value] : settings) {
    if (name == knob.name) return value;
  }
  return knob.standard;
}

}  // namespace rubato::cli
