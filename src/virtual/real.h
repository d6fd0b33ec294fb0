// SPDX-License-Identifier: Apache-2.0
//
// Real: libc's own function behind one that the library defines under the same name. For the
// library's own files.
#pragma once

#include <dlfcn.h>

namespace rubato::virt {

// libc's function of that name, looked up at its first call. The pointer gives the type alone.
template <class Result, class... Args>
class Real {
 public:
  constexpr Real(Result (*)(Args...), const char* name) : name_(name) {}

  Result operator()(Args... args) {
    if (function_ == nullptr) {
      function_ = reinterpret_cast<Result (*)(Args...)>(dlsym(RTLD_NEXT, name_));
    }
    return function_(args...);
  }

 private:
  const char* const name_;
  Result (*function_)(Args...) = nullptr;
};

}  // namespace rubato::virt

#define RUBATO_REAL(name) static constinit rubato::virt::Real real(&name, #name)
