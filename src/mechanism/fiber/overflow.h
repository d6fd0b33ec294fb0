// SPDX-License-Identifier: Apache-2.0
//
// Stack overflows of fibers: a fault in the guard pages of a stack (stack.h) is told from others,
// and reported with what was running there, before the process ends. It cannot go on: the code that
// overflowed may hold any lock, and nothing can unwind it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace rubato {

// Stacks that lie one behind the other, each above its guard pages.
struct StackRegion {
  uintptr_t low = 0;
  size_t stride_bytes = 0;  // from one guard to the next
  size_t guard_bytes = 0;
  size_t count = 0;

  // True for an address in the guard pages, or `slack` bytes above them.
  bool is_overflow(uintptr_t address, size_t slack = 0) const {
    const uintptr_t offset = address - low;
    return address >= low && offset < stride_bytes * count &&
           offset % stride_bytes < guard_bytes + slack;
  }
};

// Any thread. Regions beyond the first 64 are not known to the handler.
void note_stack_region(const StackRegion& region);
void forget_stack_region(uintptr_t low);

// The work of the calling thread; safe in a signal handler.
struct RunningWork {
  std::string_view type_name;  // empty = the type has none
  uint32_t type = 0;
  uint64_t connection = 0;
};
using AskForWork = bool (*)(RunningWork& work);  // false: none runs

// From now on an overflow of a fiber's stack ends the process with a line on standard error that
// names the running request and its type, and by SIGSEGV. Other faults go to the handler before.
// Sanitizers keep their own handler. Any thread; the first call counts.
void report_stack_overflows(AskForWork ask);

// The stack that the handler needs, for the calling thread, unless that has one. Made and destroyed
// on that thread.
class SignalStack {
 public:
  SignalStack();
  ~SignalStack();  // on another thread: the stack stays with its thread
  SignalStack(const SignalStack&) = delete;
  SignalStack& operator=(const SignalStack&) = delete;

 private:
  void* memory_ = nullptr;  // null = the thread has one
};

}  // namespace rubato
