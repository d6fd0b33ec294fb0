// SPDX-License-Identifier: Apache-2.0
//
// The functions that -fsanitize=thread has code call at its memory accesses, as GCC and Clang emit
// them: an atomic access is a step of the world, any other one costs a nanosecond.
#include <cstddef>
#include <cstdint>

#include "virtual/scheduler.h"

namespace rubato::virt {
namespace {

void atomic_read(const volatile void* at, const void* place) {
  Scheduler* scheduler = Scheduler::here();
  if (scheduler == nullptr) return;
  scheduler->read(const_cast<const void*>(at), place);
}

void atomic_write(const volatile void* at, const void* place, bool relaxed = false) {
  Scheduler* scheduler = Scheduler::here();
  if (scheduler == nullptr) return;
  scheduler->write(const_cast<const void*>(at), place, relaxed);
}

// A word that is set from 0 by an exchange that acquires, and to 0 again by a store that releases,
// is a lock in between.
void note_exchange(const volatile void* at, bool sets, int order) {
  if (!sets || order != __ATOMIC_ACQUIRE) return;
  if (Scheduler* scheduler = Scheduler::here()) scheduler->note_lock(const_cast<const void*>(at));
}
void note_store(const volatile void* at, bool clears, int order) {
  if (!clears || order != __ATOMIC_RELEASE) return;
  if (Scheduler* scheduler = Scheduler::here()) scheduler->note_unlock(const_cast<const void*>(at));
}

template <class T>
int compare_exchange(volatile T* at, T* expected, T value, int order, const void* place) {
  atomic_write(at, place);
  const T before = *at;
  if (before == *expected) {
    *at = value;
    note_exchange(at, before == 0 && value != 0, order);
    return 1;
  }
  *expected = before;
  return 0;
}

void plain_read(const void* at) {
  if (!Scheduler::sees_plain_accesses()) return;
  if (Scheduler* scheduler = Scheduler::here()) scheduler->plain_read(at);
}

void plain_write(const void* at) {
  if (!Scheduler::sees_plain_accesses()) return;
  if (Scheduler* scheduler = Scheduler::here()) scheduler->plain_write(at);
}

}  // namespace
}  // namespace rubato::virt

using rubato::virt::atomic_read;
using rubato::virt::atomic_write;
using rubato::virt::compare_exchange;
using rubato::virt::note_exchange;
using rubato::virt::note_store;
using rubato::virt::plain_read;
using rubato::virt::plain_write;

// The place in the program.
#define RUBATO_PLACE __builtin_return_address(0)

#define RUBATO_READ(name)                                                                          \
  void name(void* at) { plain_read(at); }
#define RUBATO_WRITE(name)                                                                         \
  void name(void* at) { plain_write(at); }

// Every order is at least as strong as the one asked for: there is one thread.
#define RUBATO_ATOMIC(bits, type)                                                                  \
  type __tsan_atomic##bits##_load(const volatile type* at, int) {                                  \
    atomic_read(at, RUBATO_PLACE);                                                                 \
    return *at;                                                                                    \
  }                                                                                                \
  void __tsan_atomic##bits##_store(volatile type* at, type value, int order) {                     \
    atomic_write(at, RUBATO_PLACE, order == __ATOMIC_RELAXED);                                     \
    *at = value;                                                                                   \
    note_store(at, value == 0, order);                                                             \
  }                                                                                                \
  type __tsan_atomic##bits##_exchange(volatile type* at, type value, int order) {                  \
    atomic_write(at, RUBATO_PLACE);                                                                \
    const type before = *at;                                                                       \
    *at = value;                                                                                   \
    note_exchange(at, before == 0 && value != 0, order);                                           \
    return before;                                                                                 \
  }                                                                                                \
  RUBATO_MODIFY(bits, type, add, before + value)                                                   \
  RUBATO_MODIFY(bits, type, sub, before - value)                                                   \
  RUBATO_MODIFY(bits, type, and, before & value)                                                   \
  RUBATO_MODIFY(bits, type, or, before | value)                                                    \
  RUBATO_MODIFY(bits, type, xor, before ^ value)                                                   \
  RUBATO_MODIFY(bits, type, nand, ~(before & value))                                               \
  int __tsan_atomic##bits##_compare_exchange_strong(volatile type* at, type* expected,             \
                                                    type value, int order, int) {                  \
    return compare_exchange(at, expected, value, order, RUBATO_PLACE);                             \
  }                                                                                                \
  int __tsan_atomic##bits##_compare_exchange_weak(volatile type* at, type* expected,               \
                                                  type value, int order, int) {                    \
    return compare_exchange(at, expected, value, order, RUBATO_PLACE);                             \
  }                                                                                                \
  type __tsan_atomic##bits##_compare_exchange_val(volatile type* at, type expected, type value,    \
                                                  int order, int) {                                \
    compare_exchange(at, &expected, value, order, RUBATO_PLACE);                                   \
    return expected;                                                                               \
  }

#define RUBATO_MODIFY(bits, type, name, result)                                                    \
  type __tsan_atomic##bits##_fetch_##name(volatile type* at, type value, int) {                    \
    atomic_write(at, RUBATO_PLACE);                                                                \
    const type before = *at;                                                                       \
    *at = static_cast<type>(result);                                                               \
    return before;                                                                                 \
  }

extern "C" {

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}

RUBATO_READ(__tsan_read1)
RUBATO_READ(__tsan_read2)
RUBATO_READ(__tsan_read4)
RUBATO_READ(__tsan_read8)
RUBATO_READ(__tsan_read16)
RUBATO_WRITE(__tsan_write1)
RUBATO_WRITE(__tsan_write2)
RUBATO_WRITE(__tsan_write4)
RUBATO_WRITE(__tsan_write8)
RUBATO_WRITE(__tsan_write16)
RUBATO_READ(__tsan_unaligned_read2)
RUBATO_READ(__tsan_unaligned_read4)
RUBATO_READ(__tsan_unaligned_read8)
RUBATO_READ(__tsan_unaligned_read16)
RUBATO_WRITE(__tsan_unaligned_write2)
RUBATO_WRITE(__tsan_unaligned_write4)
RUBATO_WRITE(__tsan_unaligned_write8)
RUBATO_WRITE(__tsan_unaligned_write16)
RUBATO_READ(__tsan_vptr_read)
RUBATO_READ(__tsan_volatile_read1)
RUBATO_READ(__tsan_volatile_read2)
RUBATO_READ(__tsan_volatile_read4)
RUBATO_READ(__tsan_volatile_read8)
RUBATO_WRITE(__tsan_volatile_write1)
RUBATO_WRITE(__tsan_volatile_write2)
RUBATO_WRITE(__tsan_volatile_write4)
RUBATO_WRITE(__tsan_volatile_write8)
void __tsan_vptr_update(void** at, void*) { plain_write(at); }
void __tsan_read_range(void* at, size_t) { plain_read(at); }
void __tsan_write_range(void* at, size_t) { plain_write(at); }

RUBATO_ATOMIC(8, uint8_t)
RUBATO_ATOMIC(16, uint16_t)
RUBATO_ATOMIC(32, uint32_t)
RUBATO_ATOMIC(64, uint64_t)

void __tsan_atomic_thread_fence(int) { atomic_read(nullptr, RUBATO_PLACE); }
// One of this order is a cpu_pause().
void __tsan_atomic_signal_fence(int order) {
  if (order != __ATOMIC_ACQ_REL) return;
  if (rubato::virt::Scheduler* scheduler = rubato::virt::Scheduler::here()) scheduler->pause();
}

// Fibers need no announcement here.
void* __tsan_get_current_fiber() { return nullptr; }
void* __tsan_create_fiber(unsigned) { return nullptr; }
void __tsan_destroy_fiber(void*) {}
void __tsan_switch_to_fiber(void*, unsigned) {
  if (rubato::virt::Scheduler* scheduler = rubato::virt::Scheduler::here()) {
    scheduler->leave_fiber();
  }
}

}  // extern "C"
