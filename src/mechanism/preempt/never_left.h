// SPDX-License-Identifier: Apache-2.0
//
// RUBATO_NEVER_LEFT marks functions of the runtime that libc may call while it holds a lock of its
// own: the interposed ones, and the functions that these call while no region is open. Linked into
// a program they would count as its code, which may be left at any instruction; so they lie in a
// stretch of their own, which the code map counts as unsafe. Any thread.
#pragma once

#include <cstdint>

// (Copies that GCC makes of a function would not lie there.)
#if defined(__clang__)
#define RUBATO_NEVER_LEFT __attribute__((section("rubato_never_left"), noinline))
#else
#define RUBATO_NEVER_LEFT __attribute__((section("rubato_never_left"), noipa))
#endif

// Defined by the linker for each object; null in an object that has no such function.
extern "C" {
extern const char __start_rubato_never_left[] __attribute__((weak, visibility("hidden")));
extern const char __stop_rubato_never_left[] __attribute__((weak, visibility("hidden")));
}

namespace rubato {

struct CodeSpan {
  uintptr_t low = 0;
  uintptr_t high = 0;  // the first address behind it
};

// The stretch of the object, program or library, that this is compiled into.
inline CodeSpan never_left_code() {
  return {reinterpret_cast<uintptr_t>(__start_rubato_never_left),
          reinterpret_cast<uintptr_t>(__stop_rubato_never_left)};
}

}  // namespace rubato
