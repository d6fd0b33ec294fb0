// SPDX-License-Identifier: Apache-2.0
#include "mechanism/preempt/mechanism.h"

#include <sys/auxv.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "mechanism/preempt/tls_block.h"
#include "mechanism/preempt/kmod.h"
#include "mechanism/preempt/signal.h"
#include "mechanism/preempt/timer.h"
#include "mechanism/preempt/uintr.h"

namespace rubato {
namespace {

constexpr size_t kOwnStackBytes = size_t{16} * 1024;      // as without interrupts
constexpr size_t kRuntimeStackBytes = size_t{12} * 1024;  // taking arrivals in, parsing, choosing
// Where the kernel does not say.
#if defined(__x86_64__)
constexpr size_t kSmallestFrameBytes = 2048;
#else
constexpr size_t kSmallestFrameBytes = 5 * 1024;  // always has room for registers to come
#endif

}  // namespace

const char* to_string(PreemptMechanism mechanism) {
  return choices_of(mechanism)[static_cast<size_t>(mechanism)].name;
}

std::optional<PreemptMechanism> preempt_mechanism(std::string_view name) {
  for (size_t i = 0; i < kPreemptChoices.size(); ++i) {
    if (kPreemptChoices[i].name == name) return static_cast<PreemptMechanism>(i);
  }
  return std::nullopt;
}

Status available(PreemptMechanism mechanism) {
  if (is_asynchronous(mechanism)) {
    if (Status good = TlsBlock::available(); !good.ok()) return good;
  }
  switch (mechanism) {
    case PreemptMechanism::kTimer:
      return WorkerTimer::available();
    case PreemptMechanism::kUintr:
      return uintr_available();
    case PreemptMechanism::kKmod:
      return kmod_available();
    default:
      return Done{};
  }
}

PreemptMechanism resolve(PreemptMechanism mechanism) {
  if (mechanism != PreemptMechanism::kAuto) return mechanism;
  for (const PreemptMechanism best : {PreemptMechanism::kUintr, PreemptMechanism::kKmod}) {
    if (available(best).ok()) return best;
  }
  return PreemptMechanism::kCheckpoint;
}

size_t min_stack_bytes(PreemptMechanism mechanism) {
  if (!is_asynchronous(mechanism)) return 0;
  const size_t frame = std::max<size_t>(getauxval(AT_MINSIGSTKSZ), kSmallestFrameBytes);
  const size_t sum = kOwnStackBytes + kRuntimeStackBytes + 2 * frame;  // one more may nest
  return (sum + 1023) / 1024 * 1024;
}

Result<std::unique_ptr<InterruptLine>> open_interrupt_line(PreemptMechanism mechanism,
                                                           InterruptTarget& target) {
  switch (mechanism) {
    case PreemptMechanism::kSignal:
    case PreemptMechanism::kTimer:
      return open_signal_line(target);
    case PreemptMechanism::kKmod:
      return open_kmod_line(target);
    case PreemptMechanism::kUintr:
      return open_uintr_line(target);
    default:
      return Error{std::string(to_string(mechanism)) + ": interrupts nobody"};
  }
}

}  // namespace rubato
