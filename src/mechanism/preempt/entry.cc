// SPDX-License-Identifier: Apache-2.0
#include "mechanism/preempt/entry.h"

#include <algorithm>
#include <cerrno>

#include "mechanism/preempt/never_left.h"
#include "mechanism/preempt/preempt_disable.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#if defined(__x86_64__)

extern "C" {
// The entry of entry_x86_64.S, and two variables that it reads. They are written once, before the
// first interrupt.
void rubato_interrupt_entry();
uint64_t rubato_interrupt_state_bytes = 0;
uint8_t rubato_interrupt_compacts = 0;

// Called by the entry. As in the handler of signals, errno and the region are the fiber's own, the
// same before and after a switch.
RUBATO_NEVER_LEFT void rubato_interrupted(uint64_t cookie, uintptr_t pc) {
  rubato::preempt_disable();
  const int saved = errno;
  auto* target = reinterpret_cast<rubato::InterruptTarget*>(static_cast<uintptr_t>(cookie));
  target->interrupted(pc, false);
  errno = saved;
  rubato::preempt_enable_no_resched();
}
}

namespace rubato {
namespace {

struct StateArea {
  uint64_t bytes = 0;  // 0 = no XSAVE
  bool compacts = false;
};

StateArea read_state_area() {
  constexpr unsigned kOsxsave = 1u << 27;
  constexpr unsigned kXsavec = 1u << 1;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & kOsxsave) == 0) return {};
  StateArea area;
  if (__get_cpuid_count(0xd, 0, &a, &b, &c, &d) == 0) return {};
  area.bytes = b;  // the plain form, of all that is switched on
  if (__get_cpuid_count(0xd, 1, &a, &b, &c, &d) != 0 && (a & kXsavec) != 0) {
    area.compacts = true;
    area.bytes = std::max<uint64_t>(area.bytes, b);
  }
  return area;
}

}  // namespace

Status prepare_interrupt_entry() {
  static const bool there = [] {
    const StateArea area = read_state_area();
    rubato_interrupt_state_bytes = area.bytes;
    rubato_interrupt_compacts = area.compacts ? 1 : 0;
    return area.bytes != 0;
  }();
  if (!there) return Error{"the processor cannot save its vector state (XSAVE)"};
  return Done{};
}

uintptr_t interrupt_entry() { return reinterpret_cast<uintptr_t>(&rubato_interrupt_entry); }

}  // namespace rubato

#else

namespace rubato {

Status prepare_interrupt_entry() {
  return Error{"not written for this processor, only for x86-64"};
}

uintptr_t interrupt_entry() { check_failed(__FILE__, __LINE__, "no interrupt entry here"); }

}  // namespace rubato

#endif
