// SPDX-License-Identifier: Apache-2.0
//
// GuestQueue: a DatapathQueue beside which the same worker has another one, in whose sleep it joins
// (datapath/joint.h).
#pragma once

#include <functional>
#include <span>

#include "datapath/datapath.h"

namespace rubato {

class GuestQueue : public DatapathQueue {
 public:
  using Sleep = std::function<void(Nanos limit)>;

  // Descriptors that poll(2) reports readable when a poll would find something.
  virtual std::span<const int> files() const = 0;

  // As wait(), where `sleep` waits for the files and no poll of this queue can come between; it is
  // not called if the owner must not sleep.
  virtual void wait_by(Nanos limit, const Sleep& sleep) = 0;

  // From now on every wake() of this queue wakes `host` too. Set-up, before any other call.
  virtual void join(DatapathQueue& host) = 0;
};

}  // namespace rubato
