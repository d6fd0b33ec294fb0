// SPDX-License-Identifier: Apache-2.0
//
// All cores, always: no best-effort work, and what overload control alone is evaluated with
// (Breakwater, OSDI 2020). Pure; overload/cores/contract.h says when the host calls what.
#pragma once

#include "overload/cores/contract.h"

namespace rubato::overload {

class StaticCores {
 public:
  static constexpr const char* kName = "static";
  static constexpr const char* kSummary = "all cores, always";
  static constexpr const char* kSource = "as Breakwater, OSDI 2020, was evaluated";
  static constexpr bool kParks = false;

  struct Config {};
  using Controller = NoState;
  using Idle = NoState;

  explicit constexpr StaticCores(Config) {}

  Nanos interval() const { return Nanos::micros(5); }

  CoreChange change(Controller&, const CoreSignals& signals) const {
    return signals.cores < signals.limit ? CoreChange::kGrant : CoreChange::kKeep;
  }

  template <class H>
  IdleAction idle(Idle&, Nanos, H&) const {
    return IdleAction::kPoll;
  }

  template <class H>
  void resumed(Idle&, H&) const {}
};

}  // namespace rubato::overload
