// SPDX-License-Identifier: Apache-2.0
#include "calibrate/partner.h"

#include "calibrate/measurements.h"

namespace rubato::calibrate {

Pinned::Pinned(const Place& place) : place_(place) {
  static_cast<void>(pin_this_thread(place.here()).ok());
}

Pinned::~Pinned() { static_cast<void>(pin_this_thread_to_any(place_.cpus).ok()); }

void Partner::work(uint32_t cpu) {
  static_cast<void>(pin_this_thread(cpu).ok());
  for (uint64_t next = 1;; ++next) {
    spin_until([&] { return asked_.load(std::memory_order_acquire) == next; });  // A
    if (step_ == nullptr) return;
    step_();
    done_.store(next, std::memory_order_release);  // B
  }
}

}  // namespace rubato::calibrate
