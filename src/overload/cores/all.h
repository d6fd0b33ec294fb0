// SPDX-License-Identifier: Apache-2.0
//
// Every allocator of cores there is, once. Hosts, options and documentation read this list.
// Compile-time only; safe on every thread.
#pragma once

#include <string_view>
#include <type_traits>
#include <variant>

#include "overload/cores/contract.h"
#include "overload/cores/coresync.h"
#include "overload/cores/ranges.h"
#include "overload/cores/reactive.h"
#include "overload/cores/static_cores.h"

namespace rubato::overload {

using AnyCores = std::variant<  //
    StaticCores,                //
    ReactiveCores,              //
    CaladanCores,               //
    UtilRangeCores,             //
    DelayRangeCores,            //
    CoresyncCores               //
    >;

namespace internal {

template <class Visitor, class... Allocators>
constexpr void for_each_allocator(Visitor& visitor,
                                  std::type_identity<std::variant<Allocators...>>) {
  static_assert((CoreAllocator<Allocators> && ...));
  (visitor(std::type_identity<Allocators>{}), ...);
}

}  // namespace internal

// Calls `visitor(std::type_identity<A>{})` once per allocator, in the order of the list.
template <class Visitor>
constexpr void for_each_allocator(Visitor&& visitor) {
  internal::for_each_allocator(visitor, std::type_identity<AnyCores>{});
}

// Calls the visitor for the allocator of that name; false = there is none, and nothing was called.
template <class Visitor>
constexpr bool with_allocator(std::string_view name, Visitor&& visitor) {
  bool found = false;
  for_each_allocator([&]<class A>(std::type_identity<A> type) {
    if (name != A::kName) return;
    visitor(type);
    found = true;
  });
  return found;
}

}  // namespace rubato::overload
