// SPDX-License-Identifier: Apache-2.0
//
// RequestParser: finds one RESP request (an array of bulk strings, or an inline command) at the
// start of a byte string. It makes one pass: called again with the same bytes plus more, it goes on
// where it stopped. Arguments are views into the input (inline ones into a buffer of the parser),
// and in the steady state nothing is allocated.
//
// Limits and messages are those of Redis 7. Owned by one flow and used by its owner of the moment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rubato::kv {

struct ParserLimits {
  int64_t args = 2147483647;                   // arguments of one request
  int64_t bulk_bytes = 512LL * 1024 * 1024;    // one argument (proto-max-bulk-len)
  size_t line_bytes = 64UL * 1024;             // an inline command, or a header line
  int64_t unauthenticated_args = 10;           // before AUTH
  int64_t unauthenticated_bulk_bytes = 16384;  // before AUTH
};

class RequestParser {
 public:
  enum class State : uint8_t {
    kIncomplete,  // call again with more; the bytes given so far must come again, in front
    kComplete,    // argv() and length() are valid; call reset() before the next request
    kError,       // error() is valid; the stream cannot be read on
  };

  explicit RequestParser(ParserLimits limits = {}) : limits_(limits) {}

  // `input` starts at the first byte of the request. May be called again after kComplete or kError
  // only behind a reset(). Views in argv() live as long as `input` and this parser do.
  State parse(std::string_view input, bool authenticated);

  // Ready for the next request; gives memory of an unusually big one back.
  void reset();

  // Empty for a request without a command (an empty line, "*0"), which gets no reply.
  std::span<const std::string_view> argv() const { return args_; }

  // Bytes of the complete request; while incomplete, how many bytes there must be for the next
  // step (0 = unknown).
  size_t length() const { return state_ == State::kIncomplete ? wanted_ : position_; }

  // "Protocol error: ..." Valid after kError until reset.
  std::string_view error() const { return error_; }

  void set_max_bulk_bytes(int64_t bytes) { limits_.bulk_bytes = bytes; }

 private:
  enum class Line : uint8_t { kGood, kMore, kTooLong, kNotANumber };

  State parse_inline(std::string_view input);
  State parse_array(std::string_view input, bool authenticated);
  State parse_bulks(std::string_view input, bool authenticated);
  // These set the error and are false when the header cannot be accepted.
  bool good_array_header(Line line, bool authenticated);
  bool good_bulk_header(Line line, char kind, bool authenticated);
  Line read_header(std::string_view input, int64_t& number, size_t& next);
  Line read_header_slowly(std::string_view input, int64_t& number, size_t& next);
  bool split_inline(std::string_view line);
  State finish(size_t position);
  State more(size_t wanted);
  bool fail(std::string_view what);  // always false

  ParserLimits limits_;
  State state_ = State::kIncomplete;
  size_t position_ = 0;       // everything before it has been understood
  size_t scanned_ = 0;        // no line end between position_ and here
  size_t wanted_ = 0;
  int64_t args_left_ = 0;     // of the array, 0 = its header has not been read
  int64_t bulk_bytes_ = -1;   // of the argument at position_, -1 = its header has not been read
  const char* base_ = nullptr;  // where the input was at the last call; args_ point there
  std::vector<std::string_view> args_;
  std::string inline_bytes_;  // unquoted arguments of an inline command
  std::string error_;
};

}  // namespace rubato::kv
