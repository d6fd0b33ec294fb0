// SPDX-License-Identifier: Apache-2.0
//
// The kernel's futex, for the interposed functions themselves: past the function of this library
// that stands in front of syscall(). Any thread.
#pragma once

#include <time.h>

#include <cstdint>

namespace rubato::interpose {

// As the system call: -1 with errno, or its result. `timeout` may be null.
long futex(const uint32_t* word, int operation, uint32_t value, const timespec* timeout,
           uint32_t mask = 0);

}  // namespace rubato::interpose
