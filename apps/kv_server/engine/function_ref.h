// SPDX-License-Identifier: Apache-2.0
//
// FunctionRef: a borrowed callable, two words, no allocation. For parameters only: it must not
// outlive the call it is passed to. As thread safe as the callable.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

namespace rubato::kv {

template <class Signature>
class FunctionRef;

template <class R, class... Args>
class FunctionRef<R(Args...)> {
 public:
  template <class F>
    requires(!std::is_same_v<std::remove_cvref_t<F>, FunctionRef> &&
             std::is_object_v<std::remove_cvref_t<F>> && std::is_invocable_r_v<R, F&, Args...>)
  FunctionRef(F&& callable)  // implicit: call sites pass a lambda
      : callable_(const_cast<void*>(static_cast<const void*>(std::addressof(callable)))),
        call_([](void* f, Args... args) -> R {
          return (*static_cast<std::remove_reference_t<F>*>(f))(std::forward<Args>(args)...);
        }) {}

  R operator()(Args... args) const { return call_(callable_, std::forward<Args>(args)...); }

 private:
  void* callable_;
  R (*call_)(void*, Args...);
};

}  // namespace rubato::kv
