// SPDX-License-Identifier: Apache-2.0
//
// The policies of all.h in parts. What is large once per policy (a simulated or live host) is
// compiled part by part: one source, once per part (`rubato_policy_parts` in cmake/Rubato.cmake),
// joined by a template over the number of the part that is only declared where it is called:
//   x_part.h   template <uint32_t kPart> bool x_part(std::string_view name);
//   x_part.cc  its body, over PolicyPart<kPart, RUBATO_POLICY_PARTS>, and
//              template bool x_part<RUBATO_POLICY_PART>(std::string_view);
//   x.cc       for_each_policy_part<RUBATO_POLICY_PARTS>(
//                  [&]<uint32_t kPart>(PolicyPartNumber<kPart>) { x_part<kPart>(name); });
// Compile-time only; safe on every thread.
#pragma once

#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>

#include "policy/all.h"

namespace rubato {

template <uint32_t kPart>
using PolicyPartNumber = std::integral_constant<uint32_t, kPart>;

// The policies whose place in the list is kPart, modulo kParts.
template <uint32_t kPart, uint32_t kParts>
class PolicyPart {
  static_assert(kPart < kParts);

 public:
  // As for_each_policy and with_policy of all.h.
  template <class Visitor>
  static constexpr void for_each(Visitor&& visitor) {
    visit(visitor, AllPolicies{}, std::make_index_sequence<AllPolicies::kSize>{});
  }

  template <class Visitor>
  static constexpr bool with(std::string_view name, Visitor&& visitor) {
    bool found = false;
    for_each([&]<class P>(std::type_identity<P> type) {
      if (name != P::kName) return;
      visitor(type);
      found = true;
    });
    return found;
  }

 private:
  template <class Visitor, Policy... Policies, size_t... kIndex>
  static constexpr void visit(Visitor& visitor, TypeList<Policies...>,
                              std::index_sequence<kIndex...>) {
    (visit_if<kIndex % kParts == kPart, Policies>(visitor), ...);
  }

  template <bool kMine, class P, class Visitor>
  static constexpr void visit_if(Visitor& visitor) {
    if constexpr (kMine) visitor(std::type_identity<P>{});
  }
};

// Calls `visitor(PolicyPartNumber<n>{})` once per part.
template <uint32_t kParts, class Visitor>
constexpr void for_each_policy_part(Visitor&& visitor) {
  [&]<uint32_t... kPart>(std::integer_sequence<uint32_t, kPart...>) {
    (visitor(PolicyPartNumber<kPart>{}), ...);
  }(std::make_integer_sequence<uint32_t, kParts>{});
}

}  // namespace rubato
