// SPDX-License-Identifier: Apache-2.0
//
// Dispatcher: the core before the workers that handles one request after the other, on machines and
// for policies that have one. One owner.
#pragma once

#include <algorithm>
#include <utility>

#include "base/time.h"

namespace rubato::sim {

class Dispatcher {
 public:
  // The dispatcher works for `length` once it is free, from `at` on at the earliest. Returns when
  // that is done.
  Instant occupy(Instant at, Nanos length) {
    free_at_ = std::max(free_at_, at) + length;
    return free_at_;
  }

  Instant free_at() const { return free_at_; }

  // The price of its look after this event is not counted. The price of looks after stalls would
  // grow with time instead of with requests, without end.
  void look_free_of_charge(bool free) { free_look_ = free; }
  bool take_free_look() { return std::exchange(free_look_, false); }

 private:
  Instant free_at_;
  bool free_look_ = false;
};

}  // namespace rubato::sim
