// SPDX-License-Identifier: Apache-2.0
//
// Next<F>: the function that would have been called if ours were not in front of it: libc's, or
// that of an allocator or a checker that is loaded after us. Found by the loader at the first call,
// on whichever thread that is. Any thread.
#pragma once

#include <dlfcn.h>

#include <atomic>
#include <cstdlib>

// What programs see of this library; all else is hidden.
#define RUBATO_INTERPOSED extern "C" __attribute__((visibility("default")))

namespace rubato::interpose {

template <class Function>
class Next {
 public:
  constexpr explicit Next(const char* name) : name_(name) {}

  // Never null: without libc's function there is nothing to go on with.
  Function* get() {
    Function* found = function_.load(std::memory_order_relaxed);
    return __builtin_expect(found != nullptr, 1) ? found : find();
  }

  Function* get_if_found() const { return function_.load(std::memory_order_relaxed); }

 private:
  [[gnu::noinline, gnu::cold]] Function* find() {
    auto* found = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name_));
    if (found == nullptr) std::abort();
    function_.store(found, std::memory_order_relaxed);
    return found;
  }

  const char* name_;
  std::atomic<Function*> function_{nullptr};  // written with one and the same value only
};

// A variable next_NAME for the function NAME, of the type that its header gives it.
#define RUBATO_NEXT(name) \
  constinit ::rubato::interpose::Next<decltype(::name)> next_##name(#name)

}  // namespace rubato::interpose
