// SPDX-License-Identifier: Apache-2.0
//
// The functions that -fsanitize=thread has code call at its memory accesses, as GCC and Clang emit
// them: an atomic access is a step of the world, any other one costs a nanosecond.
#include <cstddef>
#include <cstdint>

#include "virtual/scheduler.h"

namespace rubato::virt {
namespace {

constexpr Nanos kPlainAccess = Nanos(1);

void atomic_access() {
  if (Scheduler* scheduler = Scheduler::here()) scheduler->access();
}

void plain_access() {
  if (Scheduler* scheduler = Scheduler::here()) scheduler->touch(kPlainAccess);
}

}  // namespace
}  // namespace rubato::virt

using rubato::virt::atomic_access;
using rubato::virt::plain_access;

#define RUBATO_PLAIN(name)                                                                         \
  void name(void*) { plain_access(); }

// Every order is at least as strong as the one asked for: there is one thread.
#define RUBATO_ATOMIC(bits, type)                                                                  \
  type __tsan_atomic##bits##_load(const volatile type* at, int) {                                  \
    atomic_access();                                                                               \
    return *at;                                                                                    \
  }                                                                                                \
  void __tsan_atomic##bits##_store(volatile type* at, type value, int) {                           \
    atomic_access();                                                                               \
    *at = value;                                                                                   \
  }                                                                                                \
  type __tsan_atomic##bits##_exchange(volatile type* at, type value, int) {                        \
    atomic_access();                                                                               \
    const type before = *at;                                                                       \
    *at = value;                                                                                   \
    return before;                                                                                 \
  }                                                                                                \
  RUBATO_MODIFY(bits, type, add, before + value)                                                   \
  RUBATO_MODIFY(bits, type, sub, before - value)                                                   \
  RUBATO_MODIFY(bits, type, and, before & value)                                                   \
  RUBATO_MODIFY(bits, type, or, before | value)                                                    \
  RUBATO_MODIFY(bits, type, xor, before ^ value)                                                   \
  RUBATO_MODIFY(bits, type, nand, ~(before & value))                                               \
  int __tsan_atomic##bits##_compare_exchange_strong(volatile type* at, type* expected,             \
                                                    type value, int, int) {                        \
    atomic_access();                                                                               \
    const type before = *at;                                                                       \
    if (before == *expected) {                                                                     \
      *at = value;                                                                                 \
      return 1;                                                                                    \
    }                                                                                              \
    *expected = before;                                                                            \
    return 0;                                                                                      \
  }                                                                                                \
  int __tsan_atomic##bits##_compare_exchange_weak(volatile type* at, type* expected,               \
                                                  type value, int success, int fail) {             \
    return __tsan_atomic##bits##_compare_exchange_strong(at, expected, value, success, fail);      \
  }

#define RUBATO_MODIFY(bits, type, name, result)                                                    \
  type __tsan_atomic##bits##_fetch_##name(volatile type* at, type value, int) {                    \
    atomic_access();                                                                               \
    const type before = *at;                                                                       \
    *at = static_cast<type>(result);                                                               \
    return before;                                                                                 \
  }

extern "C" {

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}

RUBATO_PLAIN(__tsan_read1)
RUBATO_PLAIN(__tsan_read2)
RUBATO_PLAIN(__tsan_read4)
RUBATO_PLAIN(__tsan_read8)
RUBATO_PLAIN(__tsan_read16)
RUBATO_PLAIN(__tsan_write1)
RUBATO_PLAIN(__tsan_write2)
RUBATO_PLAIN(__tsan_write4)
RUBATO_PLAIN(__tsan_write8)
RUBATO_PLAIN(__tsan_write16)
RUBATO_PLAIN(__tsan_unaligned_read2)
RUBATO_PLAIN(__tsan_unaligned_read4)
RUBATO_PLAIN(__tsan_unaligned_read8)
RUBATO_PLAIN(__tsan_unaligned_read16)
RUBATO_PLAIN(__tsan_unaligned_write2)
RUBATO_PLAIN(__tsan_unaligned_write4)
RUBATO_PLAIN(__tsan_unaligned_write8)
RUBATO_PLAIN(__tsan_unaligned_write16)
RUBATO_PLAIN(__tsan_vptr_read)
RUBATO_PLAIN(__tsan_volatile_read1)
RUBATO_PLAIN(__tsan_volatile_read2)
RUBATO_PLAIN(__tsan_volatile_read4)
RUBATO_PLAIN(__tsan_volatile_read8)
RUBATO_PLAIN(__tsan_volatile_write1)
RUBATO_PLAIN(__tsan_volatile_write2)
RUBATO_PLAIN(__tsan_volatile_write4)
RUBATO_PLAIN(__tsan_volatile_write8)
void __tsan_vptr_update(void**, void*) { plain_access(); }
void __tsan_read_range(void*, size_t) { plain_access(); }
void __tsan_write_range(void*, size_t) { plain_access(); }

RUBATO_ATOMIC(8, uint8_t)
RUBATO_ATOMIC(16, uint16_t)
RUBATO_ATOMIC(32, uint32_t)
RUBATO_ATOMIC(64, uint64_t)

void __tsan_atomic_thread_fence(int) { atomic_access(); }
void __tsan_atomic_signal_fence(int) {}

// Fibers need no announcement here.
void* __tsan_get_current_fiber() { return nullptr; }
void* __tsan_create_fiber(unsigned) { return nullptr; }
void __tsan_destroy_fiber(void*) {}
void __tsan_switch_to_fiber(void*, unsigned) {}

}  // extern "C"
