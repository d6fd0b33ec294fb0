// SPDX-License-Identifier: Apache-2.0
//
// The rules that a Limiter (limiter.h) may have, each named once, and what their settings are.
// Pure; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

#include "overload/cinnamon_rule.h"
#include "overload/dagor_rule.h"
#include "overload/gradient2_rule.h"
#include "overload/gradient_rule.h"

namespace rubato::overload {

using AnyLimiterRule = std::variant<GradientRule, Gradient2Rule, CinnamonRule, DagorRule>;

namespace internal {

template <class... Rules>
std::variant<typename Rules::Settings...> settings_of(std::type_identity<std::variant<Rules...>>);

template <class Visitor, class... Rules>
constexpr void for_each_limiter_rule(Visitor& visitor,
                                     std::type_identity<std::variant<Rules...>>) {
  (visitor(std::type_identity<Rules>{}), ...);
}

}  // namespace internal

// Those of one of the rules.
using LimiterSettings = decltype(internal::settings_of(std::type_identity<AnyLimiterRule>{}));

// Calls `visitor(std::type_identity<Rule>{})` once per rule, in the order of the list.
template <class Visitor>
constexpr void for_each_limiter_rule(Visitor&& visitor) {
  internal::for_each_limiter_rule(visitor, std::type_identity<AnyLimiterRule>{});
}

inline AnyLimiterRule make_limiter_rule(const LimiterSettings& settings, uint64_t seed) {
  std::optional<AnyLimiterRule> made;
  for_each_limiter_rule([&]<class Rule>(std::type_identity<Rule>) {
    if (const auto* its = std::get_if<typename Rule::Settings>(&settings)) {
      made.emplace(std::in_place_type<Rule>, *its, seed);
    }
  });
  return *std::move(made);
}

// Does the rule go by latencies? Else by priorities.
inline bool goes_by_latency(const LimiterSettings& settings) {
  bool found = false;
  for_each_limiter_rule([&]<class Rule>(std::type_identity<Rule>) {
    found |= Rule::kGoesByLatency && std::holds_alternative<typename Rule::Settings>(settings);
  });
  return found;
}

}  // namespace rubato::overload
