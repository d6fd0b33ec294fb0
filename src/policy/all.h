// SPDX-License-Identifier: Apache-2.0
//
// Every policy there is, once. A new policy is its header, its test, and its two lines here;
// programs, `rubato policies`, the conformance tests and the documentation all read this list.
// Compile-time only; safe on every thread.
#pragma once

#include <string_view>
#include <type_traits>

#include "policy/aliases.h"
#include "policy/altocumulus.h"
#include "policy/cfcfs.h"
#include "policy/concord.h"
#include "policy/contract.h"
#include "policy/darc.h"
#include "policy/darc_static.h"
#include "policy/edf.h"
#include "policy/fcfs.h"
#include "policy/fixed_priority.h"
#include "policy/hardware.h"
#include "policy/jbsq.h"
#include "policy/las.h"
#include "policy/mlfq.h"
#include "policy/ps.h"
#include "policy/sbb.h"
#include "policy/shinjuku.h"
#include "policy/srpt.h"
#include "policy/steal.h"
#include "policy/synergy.h"
#include "policy/tiny_quanta.h"
#include "policy/zygos.h"

namespace rubato {

template <class... Ts>
struct TypeList {
  static constexpr uint32_t kSize = sizeof...(Ts);
};

using AllPolicies = TypeList<  //
    Fcfs,                      //
    Cfcfs,                     //
    Steal,                     //
    Zygos,                     //
    Ps,                        //
    Shinjuku,                  //
    Jbsq,                      //
    Concord,                   //
    Rpcvalet,                  //
    Nebula,                    //
    Nanopu,                    //
    TinyQuanta,                //
    FixedPriority,             //
    Edf,                       //
    Srpt,                      //
    Las,                       //
    Mlfq,                      //
    Darc,                      //
    DarcStatic,                //
    Sbb,                       //
    Altocumulus,               //
    Synergy                    //
    >;

namespace internal {

template <class Visitor, Policy... Policies>
constexpr void for_each_policy(Visitor& visitor, TypeList<Policies...>) {
  (visitor(std::type_identity<Policies>{}), ...);
}

}  // namespace internal

// Calls `visitor(std::type_identity<P>{})` once per policy, in the order of the list:
//   for_each_policy([]<class P>(std::type_identity<P>) { fmt::print("{}\n", P::kName); });
template <class Visitor>
constexpr void for_each_policy(Visitor&& visitor) {
  internal::for_each_policy(visitor, AllPolicies{});
}

// Calls the visitor for the policy of that name or alias; false = there is none, and nothing was
// called.
template <class Visitor>
constexpr bool with_policy(std::string_view name, Visitor&& visitor) {
  bool found = false;
  for_each_policy([&]<class P>(std::type_identity<P> type) {
    if (policy_called(name) != P::kName) return;
    visitor(type);
    found = true;
  });
  return found;
}

}  // namespace rubato
