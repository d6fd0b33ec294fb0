// SPDX-License-Identifier: Apache-2.0
//
// draw_settings<P>: values for the options of a policy, at random from their ranges, as `--set`
// takes them. A quarter keeps its default, some are at an end of the range, the others are spread
// over its magnitudes, more of them small. For tests; the same generator gives the same settings.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/option_text.h"
#include "base/prng.h"
#include "policy/contract.h"

namespace rubato::testing {

using PolicySettings = std::vector<std::pair<std::string, std::string>>;

// From the range of an option; a whole number if its field is one.
inline double draw_in_range(Prng& prng, double low, double high, bool whole) {
  switch (prng.below(6)) {
    case 0: return low;
    case 1: return high;
    default: break;
  }
  const double least = std::max(low, std::min(whole ? 1.0 : 0.1, high));
  const double spread = prng.uniform() * prng.uniform();
  const double value = least * std::pow(high / least, spread);
  return std::clamp(whole ? std::round(value) : value, low, high);
}

// Without those that others void. The settings are taken in turn, by chance from either end, and
// again as long as there is one that the others now allow.
template <Policy P>
PolicySettings without_voided(PolicySettings drawn) {
  if (read_options<P>(drawn).ok()) return drawn;
  if (drawn.size() % 2 == 1) std::reverse(drawn.begin(), drawn.end());
  PolicySettings kept;
  for (size_t before = drawn.size() + 1; drawn.size() < before;) {
    before = drawn.size();
    std::erase_if(drawn, [&](const auto& setting) {
      kept.push_back(setting);
      const bool fits = read_options<P>(kept).ok();
      if (!fits) kept.pop_back();
      return fits;
    });
  }
  return kept;
}

template <Policy P>
PolicySettings draw_settings(Prng& prng) {
  PolicySettings drawn;
  typename P::Config defaults{};
  visit_options<P>(defaults, [&](const OptionInfo& info, const auto& field) {
    using Field = std::decay_t<decltype(field)>;
    if (prng.below(4) == 0) return;
    const bool whole = std::is_same_v<Field, uint32_t> || std::is_same_v<Field, bool>;
    char text[32];
    std::snprintf(text, sizeof text, "%.10g", draw_in_range(prng, info.low, info.high, whole));
    drawn.emplace_back(info.name, text);
  });
  return without_voided<P>(std::move(drawn));
}

// Requires settings that P takes.
template <Policy P>
typename P::Config config_of(const PolicySettings& settings) {
  Result<typename P::Config> config = read_options<P>(settings);
  if (!config) check_failed(__FILE__, __LINE__, config.error().c_str());
  return *config;
}

// As the command line has them: " --set quantum=3.5 --set k=2".
inline std::string as_arguments(const PolicySettings& settings) {
  std::string text;
  for (const auto& [name, value] : settings) {
    text.append(" --set ").append(name).append("=").append(value);
  }
  return text;
}

}  // namespace rubato::testing
