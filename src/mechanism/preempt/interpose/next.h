// SPDX-License-Identifier: Apache-2.0
//
// Next<F>: the function that would have been called if ours were not in front of it: libc's, or
// that of an allocator or a checker that is loaded after us. Found by the loader at the first call,
// on whichever thread that is. Any thread.
#pragma once

#include <atomic>

#include "mechanism/preempt/never_left.h"

// The functions of this library that programs see; all others are hidden.
#define RUBATO_INTERPOSED extern "C" RUBATO_NEVER_LEFT __attribute__((visibility("default")))

// The code that an interposed function returns to; for use in its outermost frame.
#define RUBATO_CALLER __builtin_return_address(0)

namespace rubato::interpose {

// Never null: without libc's function there is nothing to go on with.
void* find_next(const char* name);

template <class Function>
class Next {
 public:
  constexpr explicit Next(const char* name) : name_(name) {}

  [[gnu::always_inline]] Function* get() { return get_by(find_next); }

  // Null if `find` returns that.
  [[gnu::always_inline]] Function* get_by(void* (*find)(const char* name)) {
    Function* found = function_.load(std::memory_order_relaxed);
    if (__builtin_expect(found != nullptr, 1)) return found;
    found = reinterpret_cast<Function*>(find(name_));
    if (found != nullptr) function_.store(found, std::memory_order_relaxed);
    return found;
  }

 private:
  const char* name_;
  std::atomic<Function*> function_{nullptr};  // null, or always the same
};

// A variable next_NAME for the function NAME, of the type that its header gives it.
#define RUBATO_NEXT(name) \
  constinit ::rubato::interpose::Next<decltype(::name)> next_##name(#name)

}  // namespace rubato::interpose
