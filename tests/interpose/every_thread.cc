// SPDX-License-Identifier: Apache-2.0
//
// Preloaded in front of librubato-interpose.so, it has every thread of a program that knows nothing
// of us take the way of fibers: non-preemptible regions, yielding for locks, waiting by sequence
// numbers. Yielding is sched_yield here. A thread that ends with its count of non-preemptible
// regions off, or one below zero, ends the process with a line that says so. Non-preemptible
// regions that end at exit() are not looked at.
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "mechanism/preempt/interpose/hooks.h"

namespace {

__attribute__((tls_model("initial-exec"))) thread_local int t_sections = 0;

[[noreturn]] void fail(const char* what) {
  static_cast<void>(!write(STDERR_FILENO, what, strlen(what)));
  _exit(97);
}

void enter() { ++t_sections; }
void leave(const void*) {
  if (--t_sections < 0) fail("every_thread: a section was closed twice\n");
}
bool yield() {
  sched_yield();
  return true;
}
bool always() { return true; }
void nothing() {}
uint32_t none() { return 0; }
void make(void (*call)(void*), void* argument) { call(argument); }

constexpr RubatoInterposeHooks kHooks{enter, leave, yield, always, nothing, make, none};

struct Start {
  void* (*body)(void*);
  void* argument;
};

void* thread_main(void* argument) {
  const Start start = *static_cast<Start*>(argument);
  free(argument);
  rubato_interpose_thread(RUBATO_INTERPOSE_OWN_TLS);
  void* result = start.body(start.argument);
  if (t_sections != 0) fail("every_thread: a thread ends inside a section\n");
  return result;
}

void take_this_thread() {
  rubato_interpose_attach(&kHooks);
  rubato_interpose_thread(RUBATO_INTERPOSE_OWN_TLS);
}

// The child of a fork, which the interposers have forgotten, goes the same way again.
[[gnu::constructor]] void begin() {
  take_this_thread();
  pthread_atfork(nullptr, nullptr, take_this_thread);
}

}  // namespace

extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                              void* (*body)(void*), void* argument) noexcept {
  static auto* next = reinterpret_cast<decltype(&pthread_create)>(
      dlsym(RTLD_NEXT, "pthread_create"));
  auto* start = static_cast<Start*>(malloc(sizeof(Start)));
  if (start == nullptr) return EAGAIN;
  *start = {body, argument};
  const int rc = next(thread, attributes, thread_main, start);
  if (rc != 0) free(start);
  return rc;
}
