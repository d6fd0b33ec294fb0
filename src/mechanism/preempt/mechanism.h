// SPDX-License-Identifier: Apache-2.0
//
// The ways to preempt a running request (base/preempt_mechanism.h) that this machine has. Used at
// start, on any thread.
//
//   checkpoint  the request looks for itself, where rubato::checkpoint() stands in its code
//   signal      a timer core sends the worker's thread a signal (Synergy 5.2.3)
//   timer       a POSIX timer of each worker sends that signal, no timer core (SBB 4.3)
//   uintr       a timer core sends a user interrupt, without the kernel
//   kmod        a timer core has a kernel module interrupt the worker's CPU
//
// All but checkpoint and none are asynchronous: they may hit any instruction of code that knows
// nothing of the runtime, see preempt_disable.h and tls_block.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "base/preempt_mechanism.h"
#include "base/result.h"

namespace rubato {

inline constexpr std::array kPreemptMechanisms{
    PreemptMechanism::kCheckpoint, PreemptMechanism::kSignal, PreemptMechanism::kTimer,
    PreemptMechanism::kUintr,      PreemptMechanism::kKmod,   PreemptMechanism::kNone,
};

const char* to_string(PreemptMechanism mechanism);
std::optional<PreemptMechanism> preempt_mechanism(std::string_view name);

constexpr bool is_asynchronous(PreemptMechanism mechanism) {
  return mechanism == PreemptMechanism::kSignal || mechanism == PreemptMechanism::kTimer ||
         mechanism == PreemptMechanism::kUintr || mechanism == PreemptMechanism::kKmod;
}

// Done, or the reason why this machine or this build lacks the mechanism. Not for kAuto.
Status available(PreemptMechanism mechanism);

// The mechanism that `auto` stands for on this machine; other mechanisms stay as they are.
PreemptMechanism resolve(PreemptMechanism mechanism);

// The smallest stack on which an interrupted request can go on: its own share, the vector state
// that the kernel saves on it (AT_MINSIGSTKSZ, up to 11 KiB), and the runtime on top of that. Zero
// for mechanisms that interrupt nothing.
size_t min_stack_bytes(PreemptMechanism mechanism);

// The receiver of interrupts. interrupted() is called on the thread that opened the line, in a
// handler that has opened one region and keeps errno: `pc` is where the thread was, and
// `in_system_call` whether the kernel had it there, in a call that the interrupt ended or that is
// made again. It may switch fibers.
class InterruptTarget {
 public:
  virtual void interrupted(uintptr_t pc, bool in_system_call) = 0;

 protected:
  ~InterruptTarget() = default;
};

// The means to interrupt one thread, opened and destroyed on that thread. Any thread may call send
// meanwhile, any number of times: interrupts that have not arrived yet may merge.
class InterruptLine {
 public:
  virtual ~InterruptLine() = default;
  virtual void send() = 0;
};

// For the calling thread. Requires an asynchronous mechanism that is available. `target` outlives
// the line.
Result<std::unique_ptr<InterruptLine>> open_interrupt_line(PreemptMechanism mechanism,
                                                           InterruptTarget& target);

}  // namespace rubato
