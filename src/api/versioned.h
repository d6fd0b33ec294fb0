// SPDX-License-Identifier: Apache-2.0
//
// Structs of the C interface, which begin with the size that their caller was compiled with. Plain
// functions; safe on every thread.
//
// The struct of an older caller is shorter: the missing fields keep their defaults. The struct of a
// newer caller is longer: the additional bytes must all be zero, so that they ask for nothing.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>

#include "base/result.h"

namespace rubato::api {

// `defaults` overlaid by the fields that the caller gave. Fails with one line that starts with
// `what`.
template <class T>
Result<T> read_versioned(const T* given, const T& defaults, const char* what) {
  if (given == nullptr) return Error{std::string(what) + ": null"};
  const size_t size = given->struct_size;
  if (size <= sizeof(size_t)) {
    return Error{std::string(what) + ": struct_size is not set; fill it with its init function"};
  }
  const char* bytes = reinterpret_cast<const char*>(given);
  for (size_t i = sizeof(T); i < size; ++i) {
    if (bytes[i] != 0) return Error{std::string(what) + ": made for a newer library"};
  }
  T read = defaults;
  std::memcpy(&read, given, std::min(size, sizeof(T)));
  read.struct_size = sizeof(T);
  return read;
}

// The reverse, into a caller's struct of `size` bytes; fields that we do not know are zero.
template <class T>
void write_versioned(T value, T* to, size_t size) {
  value.struct_size = size;
  std::memset(to, 0, size);
  std::memcpy(to, &value, std::min(size, sizeof(T)));
}

}  // namespace rubato::api
