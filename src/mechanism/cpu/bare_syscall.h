// SPDX-License-Identifier: Apache-2.0
//
// bare_syscall(): a system call without the C library, so that neither its code runs nor errno, or
// anything else in thread-local storage, is touched. Answers what the kernel does: a failure is the
// negative of its errno. Any thread, also in a signal handler.
#pragma once

namespace rubato {

#if defined(__x86_64__)

[[gnu::always_inline]] inline long bare_syscall(long number, long a = 0, long b = 0, long c = 0,
                                                long d = 0) {
  long result = 0;
  register long r10 asm("r10") = d;
  asm volatile("syscall"
               : "=a"(result)
               : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10)
               : "rcx", "r11", "memory");
  return result;
}

#elif defined(__aarch64__)

[[gnu::always_inline]] inline long bare_syscall(long number, long a = 0, long b = 0, long c = 0,
                                                long d = 0) {
  register long x8 asm("x8") = number;
  register long x0 asm("x0") = a;
  register long x1 asm("x1") = b;
  register long x2 asm("x2") = c;
  register long x3 asm("x3") = d;
  asm volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
  return x0;
}

#endif

}  // namespace rubato
