// SPDX-License-Identifier: Apache-2.0
#include "runtime/app.h"

#include "runtime/seat.h"

namespace rubato {
namespace {
thread_local Seat* t_seat = nullptr;

void checkpoint_taken() {
  if (Seat* seat = this_seat()) {
    seat->checkpoint_slow();
  } else {
    checkpoint_budget_set(kCheckpointNever);
  }
}

}  // namespace

[[gnu::noinline]] Seat* this_seat() {
  asm volatile("");
  return t_seat;
}

[[gnu::noinline]] void set_this_seat(Seat* seat) {
  asm volatile("");
  t_seat = seat;
  checkpoint_set_handler(&checkpoint_taken);
}

void long_begin(uint8_t priority) {
  if (Seat* seat = this_seat()) seat->long_begin(priority);
}

void long_end() {
  if (Seat* seat = this_seat()) seat->long_end();
}

Request* current_request() {
  Seat* seat = this_seat();
  return seat == nullptr ? nullptr : seat->current();
}

NoPreempt::NoPreempt() {
  if (Seat* seat = this_seat()) seat->forbid_preemption();
}

NoPreempt::~NoPreempt() {
  Seat* seat = this_seat();
  if (seat != nullptr && seat->allow_preemption()) seat->checkpoint_slow();
}

}  // namespace rubato
