// SPDX-License-Identifier: Apache-2.0
//
// ReplyParser: finds the ends of RESP replies in a byte stream. Of each reply it keeps only whether
// it was an error, and the beginning of the error's text.
//
// Incremental: bytes come in pieces of any size. Bodies are skipped by their length, so the cost of
// a reply depends on its number of elements, not its size; the parser copies only line heads of at
// most kMaxLine bytes. Understands RESP2 and the RESP3 types that may answer a command (no pushes).
// Pure; one owner at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "load/outcome.h"

namespace rubato::load {

class ReplyParser {
 public:
  static constexpr size_t kMaxLine = 128;           // bytes kept of a line; the rest is skipped
  static constexpr int64_t kMaxBody = 512LL << 20;  // proto-max-bulk-len of Redis
  static constexpr int64_t kMaxElements = 1LL << 31;

  enum class Status : uint8_t {
    kMore,    // all bytes consumed, the reply is not complete
    kReply,   // a reply ended; feed the rest of the bytes for the next one
    kBroken,  // not RESP: the stream cannot be followed any further
  };

  // Consumes bytes up to the end of one reply; `used` is their number. After kBroken the parser
  // stays broken.
  Status feed(const char* data, size_t size, size_t& used);

  // After kReply, until the next feed: was the reply an error, and its text without the '-'.
  bool is_error() const { return error_; }
  std::string_view error_text() const { return {line_, is_error() ? line_size_ : 0}; }

 private:
  enum class State : uint8_t { kType, kLine, kLineEnd, kBody, kBroken };

  bool start_element(char type);
  bool line_done();
  bool element_done();  // true = the whole reply is complete

  State state_ = State::kType;
  char type_ = 0;
  bool error_ = false;
  bool top_ = true;  // the next element is the reply itself
  bool reply_done_ = false;
  uint64_t pending_ = 0;   // elements still to come
  int64_t body_left_ = 0;  // bytes of a bulk still to come, with its CRLF
  size_t line_size_ = 0;
  char line_[kMaxLine] = {};
};

// The outcome of a request with an error reply. Refusals by plan are -OVERLOADED, -THROTTLED, -BUSY
// and -TRYAGAIN; any other error is an error.
Outcome classify_error(std::string_view text);

}  // namespace rubato::load
