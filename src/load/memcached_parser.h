// SPDX-License-Identifier: Apache-2.0
//
// MemcachedParser: finds the ends of replies of memcached's text protocol (doc/protocol.txt of
// memcached 1.6) in a byte stream. Of each reply it keeps only whether it was an error, and the
// beginning of the error's line.
//
// Incremental: bytes come in pieces of any size. Data blocks are skipped by their length; the
// parser copies only lines, at most kMaxLine bytes of each. Understands the replies to the classic
// commands for retrieval, storage, deletion, arithmetic and `version`, not those to meta commands
// and `stats`. Pure; one owner at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "load/outcome.h"
#include "load/reply_parser.h"

namespace rubato::load {

class MemcachedParser {
 public:
  using Status = ReplyParser::Status;

  // Longer than any VALUE line; of an error or a version the rest is skipped.
  static constexpr size_t kMaxLine = 320;
  static constexpr size_t kMaxKey = 250;            // KEY_MAX_LENGTH of memcached
  static constexpr uint64_t kMaxBody = 1ULL << 30;  // the most that its option -I takes

  // Consumes bytes up to the end of one reply; `used` is their number. After kBroken, which says
  // that the bytes are not of this protocol, the parser stays broken.
  Status feed(const char* data, size_t size, size_t& used);

  // After kReply, until the next feed: was the reply an error (ERROR, CLIENT_ERROR or
  // SERVER_ERROR), and its line.
  bool is_error() const { return error_; }
  std::string_view error_text() const { return error_ ? line() : std::string_view(); }

 private:
  enum class State : uint8_t { kLine, kBody, kBodyEnd, kLastByte, kBroken };

  std::string_view line() const { return {line_, line_size_}; }
  size_t take_line(std::string_view bytes);
  size_t take_body(std::string_view bytes);
  bool keep(std::string_view bytes);
  bool end_line();
  bool begin_value();
  void begin_line();

  State state_ = State::kLine;
  bool error_ = false;
  bool done_ = false;
  bool values_ = false;  // the reply has begun with a VALUE, so that END or an error closes it
  bool cut_ = false;     // the line is longer than line_
  char last_ = 0;        // the last byte of the line so far
  uint64_t body_left_ = 0;
  size_t line_size_ = 0;
  char line_[kMaxLine] = {};
};

// The outcome of a request with an error reply. `SERVER_ERROR overloaded` is a refusal by plan; any
// other error is an error.
Outcome classify_memcached_error(std::string_view line);

}  // namespace rubato::load
