// SPDX-License-Identifier: Apache-2.0
//
// fiber_local<T>: a variable of which every request has its own, whichever worker it runs on and
// however often it is moved, under every mechanism of preemption; what thread_local is to a thread.
// (With --preempt checkpoint a thread_local is the worker's: shared by requests, and another one
// after a preemption.)
//
//   static rubato::fiber_local<int> depth(0);   // static storage: a key is never given back
//   ++depth.get();
//
// The value is made when a request first asks for it, a copy of the initial one, and destroyed when
// the request is sent, so the next request starts afresh. On threads that run no request the value
// is the thread's. A reference is valid until the request ends. Any thread; costs a table look-up
// per access.
#pragma once

#include <cstdint>
#include <new>
#include <utility>

#include <rubato/rubato.h>

namespace rubato::inline v1 {

template <class T>
class fiber_local {
 public:
  fiber_local() : fiber_local(T()) {}
  explicit fiber_local(T initial)
      : initial_(std::move(initial)), key_(rubato_fiber_local_new_key()) {}
  fiber_local(const fiber_local&) = delete;
  fiber_local& operator=(const fiber_local&) = delete;

  T& get() {
    if (void* made = rubato_fiber_local(key_)) return *static_cast<T*>(made);
    T* fresh = new T(initial_);
    if (rubato_fiber_local_set(key_, fresh, &destroy) != RUBATO_OK) {
      delete fresh;
      throw std::bad_alloc();
    }
    return *fresh;
  }
  T& operator*() { return get(); }
  T* operator->() { return &get(); }

 private:
  static void destroy(void* value) { delete static_cast<T*>(value); }

  const T initial_;
  const uint32_t key_;
};

}  // namespace rubato::inline v1
