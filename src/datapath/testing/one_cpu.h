// SPDX-License-Identifier: Apache-2.0
//
// OneCpu: its thread keeps to one CPU for as long as this exists. What a thread sends by one socket
// then arrives in that order: each CPU has a queue of its own for what it sends over loopback and
// virtual links, and one may be served before that of the CPU that a thread came from. Threads that
// it starts meanwhile keep to that CPU for ever.
#pragma once

#include <cstdint>
#include <vector>

#include "base/check.h"
#include "mechanism/cpu/pin.h"

namespace rubato::testing {

class OneCpu {
 public:
  OneCpu() : before_(allowed_cpus()) { RUBATO_CHECK(pin_this_thread(current_cpu()).ok()); }
  OneCpu(const OneCpu&) = delete;
  OneCpu& operator=(const OneCpu&) = delete;
  ~OneCpu() { RUBATO_CHECK(pin_this_thread_to_any(before_).ok()); }

 private:
  const std::vector<uint32_t> before_;
};

}  // namespace rubato::testing
