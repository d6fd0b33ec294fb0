// SPDX-License-Identifier: Apache-2.0
//
// Assertions for bugs of ours, never for bad input: they print one line and abort.
// RUBATO_CHECK stays in release builds and belongs off the hot path; RUBATO_DCHECK vanishes when
// NDEBUG is set. Safe on every thread.
#pragma once

namespace rubato {

// Prints "FILE:LINE: check failed: WHAT" on stderr and aborts.
[[noreturn]] void check_failed(const char* file, int line, const char* what) noexcept;

}  // namespace rubato

#define RUBATO_CHECK(condition) \
  (__builtin_expect(static_cast<bool>(condition), 1) \
       ? static_cast<void>(0) \
       : ::rubato::check_failed(__FILE__, __LINE__, #condition))

#ifdef NDEBUG
#define RUBATO_DCHECK(condition) static_cast<void>(sizeof(!(condition)))
#else
#define RUBATO_DCHECK(condition) RUBATO_CHECK(condition)
#endif
