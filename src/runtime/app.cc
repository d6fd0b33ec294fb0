// SPDX-License-Identifier: Apache-2.0
#include "runtime/app.h"

#include "mechanism/cpu/this_worker.h"
#include "runtime/seat.h"

namespace rubato {
namespace {

[[gnu::tls_model("initial-exec")]] thread_local constinit Seat* t_seat = nullptr;

// The seat, if code of a request is what calls. In a section, so that the request is not moved to
// another seat between the look and the mark.
Seat* leave_application() {
  const Section stay;
  Seat* seat = this_seat();
  return seat != nullptr && seat->leave_application() ? seat : nullptr;
}

bool checkpoint_taken() {
  if (Seat* seat = leave_application()) return seat->checkpoint_slow(false);
  checkpoint_budget_set(kCheckpointNever);
  return false;
}

// A preemption was put off until now.
void section_left() {
  if (Seat* seat = leave_application()) static_cast<void>(seat->checkpoint_slow(true));
}

bool yield_to_others() {
  Seat* seat = leave_application();
  return seat != nullptr && seat->yield_for_lock();
}

}  // namespace

[[gnu::noinline]] Seat* this_seat() {
  asm volatile("");
  return t_seat;
}

[[gnu::noinline]] void set_this_seat(Seat* seat) {
  asm volatile("");
  t_seat = seat;
  set_this_worker(seat != nullptr ? seat->worker().value : 0);
}

void install_seat_hooks() {
  checkpoint_set_handler(&checkpoint_taken);
  section_set_handler(&section_left);
  set_yield_for_lock(&yield_to_others);
}

void long_begin(uint8_t priority) {
  if (Seat* seat = leave_application()) seat->long_begin(priority);
}

void long_end() {
  if (Seat* seat = leave_application()) seat->long_end();
}

Request* current_request() {
  const Section stay;
  Seat* seat = this_seat();
  return seat == nullptr ? nullptr : seat->current();
}

void forbid_preemption() {
  const Section stay;
  if (Seat* seat = this_seat()) seat->forbid_preemption();
}

void allow_preemption() {
  section_enter();
  Seat* seat = this_seat();
  const bool open = seat != nullptr && seat->allow_preemption();
  if (open) section_leave_quietly();
  section_leave();
}

}  // namespace rubato
