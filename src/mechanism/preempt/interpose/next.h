// SPDX-License-Identifier: Apache-2.0
//
// Next<F>: the function that would have been called if ours were not in front of it: libc's, or
// that of an allocator or a checker that is loaded after us. Found by the loader at the first call,
// on whichever thread that is, or when a runtime is attached: later the loader's lock may be held
// by a request that has been left while it waits. Any thread.
#pragma once

#include <atomic>

#include "mechanism/preempt/never_left.h"

// The functions of this library that programs see; all others are hidden.
#define RUBATO_INTERPOSED extern "C" RUBATO_NEVER_LEFT __attribute__((visibility("default")))

// The code that an interposed function returns to; for use in its outermost frame.
#define RUBATO_CALLER __builtin_return_address(0)

namespace rubato::interpose {

class AnyNext;

}  // namespace rubato::interpose

// Defined by the linker, for the object that this is compiled into.
extern "C" {
extern rubato::interpose::AnyNext* __start_rubato_next[] __attribute__((visibility("hidden")));
extern rubato::interpose::AnyNext* __stop_rubato_next[] __attribute__((visibility("hidden")));
}

namespace rubato::interpose {

// Never null: without libc's function there is nothing to go on with.
void* find_next(const char* name);

class AnyNext {
 public:
  constexpr explicit AnyNext(const char* name) : name_(name) {}

  // Null if `find` returns that.
  [[gnu::always_inline]] void* find_by(void* (*find)(const char* name)) {
    void* found = function_.load(std::memory_order_relaxed);
    if (__builtin_expect(found != nullptr, 1)) return found;
    found = find(name_);
    if (found != nullptr) function_.store(found, std::memory_order_relaxed);
    return found;
  }

 private:
  const char* name_;
  std::atomic<void*> function_{nullptr};  // null, or always the same
};

template <class Function>
class Next : public AnyNext {
 public:
  using AnyNext::AnyNext;

  [[gnu::always_inline]] Function* get() { return get_by(find_next); }
  [[gnu::always_inline]] Function* get_by(void* (*find)(const char* name)) {
    return reinterpret_cast<Function*>(find_by(find));
  }
};

// Calls find_by(find) for all of them.
void find_all(void* (*find)(const char* name));

// A variable next_NAME for the function NAME of that type, in the list that find_all() reads.
#define RUBATO_NEXT_OF(name, ...)                                       \
  constinit ::rubato::interpose::Next<__VA_ARGS__> next_##name(#name);  \
  [[gnu::section("rubato_next"), gnu::used]] constinit                  \
  ::rubato::interpose::AnyNext* listed_##name = &next_##name
// Of the type that its header gives it.
#define RUBATO_NEXT(name) RUBATO_NEXT_OF(name, decltype(::name))

}  // namespace rubato::interpose
