// SPDX-License-Identifier: Apache-2.0
//
// Seat: a worker as the code on its fibers sees it. A fiber may be suspended in any call marked
// "may switch" and continue on another worker, so nobody keeps a Seat across such a call: ask
// this_seat() again.
#pragma once

#include <cstdint>

#include "datapath/request.h"

namespace rubato {

class Seat {
 public:
  virtual ~Seat() = default;

  // The next request for the calling fiber; null = the runtime is stopping. May switch.
  virtual Request* recv() = 0;
  // The request is done and its reply appended.
  virtual void send(Request& request) = 0;
  // The checkpoint budget of this thread is used up. May switch.
  virtual void checkpoint_slow() = 0;
  virtual void long_begin(uint8_t priority) = 0;
  virtual void long_end() = 0;

  Request* current() const { return current_; }
  void forbid_preemption() { ++no_preempt_; }
  // True when a preemption has become due meanwhile and nothing forbids it any more.
  bool allow_preemption() { return --no_preempt_ == 0 && preemption_owed_; }

 protected:
  Request* current_ = nullptr;
  uint32_t no_preempt_ = 0;
  bool preemption_owed_ = false;
};

// The seat of the calling thread, null off the workers. Never inlined: a fiber that moved to
// another thread must not see an address that the compiler has kept from the thread before.
Seat* this_seat();
void set_this_seat(Seat* seat);

}  // namespace rubato
