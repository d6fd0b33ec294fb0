// SPDX-License-Identifier: Apache-2.0
//
// The units of the policies: each host compiles every policy in a unit of its own, so that a change
// to one policy compiles one unit per host (`rubato_policy_units` in cmake/Rubato.cmake):
//   x_policy.h   struct XPolicy, what the host has of one policy, and
//                template <uint32_t kUnit> const XPolicy& x_policy();
//   x_policy.cc  compiled once per policy, after the policy's header:
//                template <> const XPolicy& x_policy<RUBATO_POLICY_UNIT>(), over RUBATO_POLICY
//   x.cc         of_each_policy_unit<RUBATO_POLICIES>(
//                    []<uint32_t kUnit>(PolicyUnit<kUnit>) { return &x_policy<kUnit>(); });
// In the order of all.h. Compile-time only; safe on every thread.
#pragma once

#include <array>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace rubato {

template <uint32_t kUnit>
using PolicyUnit = std::integral_constant<uint32_t, kUnit>;

// An array of what `of(PolicyUnit<n>{})` returns for each policy.
template <uint32_t kPolicies, class Of>
auto of_each_policy_unit(Of of) {
  return [&]<uint32_t... kUnit>(std::integer_sequence<uint32_t, kUnit...>) {
    return std::array{of(PolicyUnit<kUnit>{})...};
  }(std::make_integer_sequence<uint32_t, kPolicies>{});
}

}  // namespace rubato
