// SPDX-License-Identifier: Apache-2.0
//
// Tells whether a sanitizer that keeps records by thread is built in, and reports fibers to it
// through functions that are empty in other builds. Only fiber.cc and stack.cc use these functions,
// and who maps memory those about roots.
//
// AddressSanitizer keeps the bounds of the running stack and a "fake stack" per fiber;
// ThreadSanitizer keeps a clock and a shadow call stack per fiber. Both must hear of a switch just
// before it happens, on the stack that is left.
#pragma once

#include <algorithm>
#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#define RUBATO_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define RUBATO_ASAN 1
#endif
#endif

#if defined(__SANITIZE_THREAD__)
#define RUBATO_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define RUBATO_TSAN 1
#endif
#endif

#if defined(RUBATO_ASAN)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#include <sanitizer/lsan_interface.h>
#endif
#if defined(RUBATO_TSAN)
#include <sanitizer/tsan_interface.h>
#endif

namespace rubato::sanitizer {

#if defined(RUBATO_ASAN)
// `save` null tells that the stack being left will never be used again.
inline void leave_stack(void** save, const void* next_low, size_t next_size_bytes) {
  __sanitizer_start_switch_fiber(save, next_low, next_size_bytes);
}
inline void arrive_on_stack(void* saved) {
  __sanitizer_finish_switch_fiber(saved, nullptr, nullptr);
}
// A fiber that ended without returning left its frames' red zones poisoned. What no frame has
// reached is not: to write its shadow would take an eighth of the whole stack in memory.
inline void forget_stack(void* low, size_t size_bytes) {
  constexpr size_t kPart = size_t{64} << 10;
  for (size_t at = 0; at < size_bytes; at += kPart) {
    void* const part = static_cast<char*>(low) + at;
    const size_t part_bytes = std::min(kPart, size_bytes - at);
    if (__asan_region_is_poisoned(part, part_bytes) == nullptr) continue;
    __asan_unpoison_memory_region(part, part_bytes);
  }
}
// Mapped memory: what its pointers lead to is no leak, until it is forgotten.
inline void add_roots(const void* memory, size_t size_bytes) {
  __lsan_register_root_region(memory, size_bytes);
}
inline void forget_roots(const void* memory, size_t size_bytes) {
  __lsan_unregister_root_region(memory, size_bytes);
}
#else
inline void leave_stack(void**, const void*, size_t) {}
inline void arrive_on_stack(void*) {}
inline void forget_stack(void*, size_t) {}
inline void add_roots(const void*, size_t) {}
inline void forget_roots(const void*, size_t) {}
#endif

#if defined(RUBATO_TSAN)
inline void* create_fiber() { return __tsan_create_fiber(0); }
inline void destroy_fiber(void* fiber) { __tsan_destroy_fiber(fiber); }
inline void* current_fiber() { return __tsan_get_current_fiber(); }
inline void switch_to_fiber(void* fiber) { __tsan_switch_to_fiber(fiber, 0); }
#else
inline void* create_fiber() { return nullptr; }
inline void destroy_fiber(void*) {}
inline void* current_fiber() { return nullptr; }
inline void switch_to_fiber(void*) {}
#endif

#if defined(RUBATO_ASAN) || defined(RUBATO_TSAN)
inline constexpr bool kPresent = true;
#else
inline constexpr bool kPresent = false;
#endif
// Instrumented frames are about this much larger.
inline constexpr size_t kStackFactor = kPresent ? 4 : 1;

}  // namespace rubato::sanitizer
