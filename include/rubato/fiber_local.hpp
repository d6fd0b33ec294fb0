// SPDX-License-Identifier: Apache-2.0
//
// fiber_local<T>: a variable of which every request has its own copy, as thread_local gives one to
// every thread. The copy stays with the request on whichever worker it runs, under every mechanism
// of preemption. (With --preempt checkpoint a thread_local belongs to the worker: requests share
// it, and a request sees another one after a preemption.)
//
//   static rubato::fiber_local<int> depth(0);   // static storage: a key is never given back
//   ++depth.get();
//
// The value is copied from the initial one when a request first asks for it, and destroyed when the
// request is sent, so the next request starts afresh. On a thread that runs no request the value
// belongs to the thread. A reference is valid until the request ends. Any thread; an access costs
// one table look-up. get() throws std::bad_alloc when memory runs out.
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
