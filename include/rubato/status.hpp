// SPDX-License-Identifier: Apache-2.0
//
// The outcome of a call (Result, Status), and the figures of a server so far (Stats, Times). Plain
// values, with no lock.
#pragma once

#include <string>
#include <utility>
#include <variant>

#include <rubato/rubato.h>

namespace rubato::inline v1 {

// One line, without a newline, that names the fault and the values that would have been right.
struct Error {
  std::string message;
};

// A value or an Error; the library reports its errors in this way, not by exceptions.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  // These require ok().
  T& operator*() { return *std::get_if<0>(&state_); }
  const T& operator*() const { return *std::get_if<0>(&state_); }
  T* operator->() { return std::get_if<0>(&state_); }
  const T* operator->() const { return std::get_if<0>(&state_); }

  // Requires !ok().
  const std::string& error() const { return std::get_if<1>(&state_)->message; }

 private:
  std::variant<T, Error> state_;
};

struct Done {};
using Status = Result<Done>;

// Sums over all workers since the start; the fields are described in <rubato/rubato.h>.
using Stats = rubato_stats;

// The times that the requests of one type took, in nanoseconds, within 0.8 %.
struct Times {
  rubato_times latency{};  // from arrival to reply, waiting included
  rubato_times service{};  // on workers
};

}  // namespace rubato::inline v1
