// SPDX-License-Identifier: Apache-2.0
//
// A library that a test loads while it runs.
extern "C" int rubato_late_object_answer() { return 42; }

// Loops until another thread has set *stop.
extern "C" void rubato_late_object_wait(const volatile int* stop) {
  while (*stop == 0) {
  }
}
