// SPDX-License-Identifier: Apache-2.0
//
// Finds the ends of requests, for the framings of the library. Pure functions over bytes (a
// LineFinder remembers the bytes it has searched and belongs to one connection). Units: bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace rubato::api {

struct Found {
  enum class State : uint8_t {
    kIncomplete,  // `length` is the size of the whole request, 0 = unknown
    kComplete,    // the request is `length` bytes, its payload `payload_bytes` at `offset`
    kMalformed,
    kTooLarge,
  };
  State state = State::kIncomplete;
  size_t length = 0;
  size_t offset = 0;
  size_t payload_bytes = 0;
};

inline constexpr size_t kPrefixBytes = 4;

// A request of four bytes, the big-endian length of the payload, and the payload.
Found find_prefixed(std::string_view unread, size_t max_payload_bytes);

// The prefix of a payload of `payload_bytes`. Requires payload_bytes < 4 GiB.
std::string prefix_of(size_t payload_bytes);

// A line; neither its newline nor one carriage return before it is payload.
class LineFinder {
 public:
  // `unread` starts where it did in the previous call, unless that call found a request.
  Found find(std::string_view unread, size_t max_payload_bytes);

 private:
  size_t looked_at_ = 0;  // bytes known to hold no newline
};

}  // namespace rubato::api
