// SPDX-License-Identifier: Apache-2.0
//
// Result<T>: a value, or one line saying what went wrong. For expected trouble at set-up (a port in
// use, a bad option), never on the hot path. Owns its value; as thread safe as T.
#pragma once

#include <string>
#include <utility>
#include <variant>

#include "base/check.h"

namespace rubato {

struct Error {
  std::string message;  // one line, no trailing newline, names the option or byte and what fits
};

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  // Requires ok().
  T& value() & { RUBATO_CHECK(ok()); return std::get<0>(state_); }
  const T& value() const& { RUBATO_CHECK(ok()); return std::get<0>(state_); }
  T&& value() && { RUBATO_CHECK(ok()); return std::get<0>(std::move(state_)); }
  T* operator->() { return &value(); }
  T& operator*() & { return value(); }

  // Requires !ok().
  const std::string& error() const { RUBATO_CHECK(!ok()); return std::get<1>(state_).message; }

 private:
  std::variant<T, Error> state_;
};

struct Done {};
using Status = Result<Done>;

}  // namespace rubato
