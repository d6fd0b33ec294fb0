// SPDX-License-Identifier: Apache-2.0
//
// HttpParser: finds the ends of HTTP/1.1 responses (RFC 9112) in a byte stream. Of each response it
// keeps only the status line.
//
// Incremental: bytes come in pieces of any size. Bodies end by Content-Length, by chunks, or with
// their connection (section 6.3). Interim responses (1xx) are skipped. Requests are no HEAD and no
// CONNECT. Pure; one owner at a time.
// (Debian's library for this, http-parser, ended in 2022; a generator needs the ends alone.)
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "load/outcome.h"
#include "load/reply_parser.h"

namespace rubato::load {

class HttpParser {
 public:
  using Status = ReplyParser::Status;

  static constexpr size_t kMaxLine = 8192;          // of a header; the rest of it is skipped
  static constexpr uint64_t kMaxBody = 1ULL << 40;  // of a response, or of one chunk
  static constexpr size_t kMaxHeaders = 1 << 20;    // bytes of a head, or of a trailer

  // Consumes bytes up to the end of one response; `used` is their number. After kBroken, which says
  // that the bytes are not of this protocol, the parser stays broken.
  Status feed(const char* data, size_t size, size_t& used);

  // The connection has ended: true if that is the end of a response.
  bool end_of_stream();

  // After a response, until the next feed: the server takes no further request on the connection
  // (section 9.3).
  bool closes() const { return closes_; }

  // After a response, until the next feed: its status.
  uint16_t code() const { return code_; }

  // Likewise: a status of 400 or more, and the status line.
  bool is_error() const { return code_ >= 400; }
  std::string_view error_text() const {
    return is_error() ? std::string_view(status_, status_size_) : std::string_view();
  }

 private:
  enum class State : uint8_t {
    kStatus,
    kHeader,
    kBody,
    kChunkSize,
    kChunk,
    kChunkEnd,
    kTrailer,
    kUntilEnd,
    kDone,
    kBroken
  };

  size_t take_line(std::string_view bytes);
  size_t take_body(std::string_view bytes);
  State end_line(std::string_view line);
  State begin_status(std::string_view line);
  State take_header(std::string_view line);
  void take_connection(std::string_view options);
  State after_head();
  State begin_chunk(std::string_view line);

  State state_ = State::kStatus;
  bool coded_ = false, chunked_ = false, has_length_ = false, cut_ = false;
  bool closes_ = false, must_close_ = false;
  uint16_t code_ = 0;
  uint64_t left_ = 0;  // of the body or chunk
  size_t head_bytes_ = 0;
  size_t line_size_ = 0, status_size_ = 0;
  char line_[kMaxLine] = {};
  char status_[128] = {};
};

// The outcome of a request with an error response: 429 and 503 are refusals by plan.
Outcome classify_http_error(std::string_view status_line);

}  // namespace rubato::load
