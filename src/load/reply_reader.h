// SPDX-License-Identifier: Apache-2.0
//
// ReplyReader: the parser of replies of a target's protocol, RESP or memcached's text protocol.
// Pure; one owner at a time.
#pragma once

#include <cstddef>
#include <string_view>
#include <variant>

#include "load/memcached_parser.h"
#include "load/outcome.h"
#include "load/reply_parser.h"
#include "load/target.h"

namespace rubato::load {

class ReplyReader {
 public:
  using Status = ReplyParser::Status;

  explicit ReplyReader(Protocol protocol = Protocol::kResp) {
    if (protocol == Protocol::kMemcached) parser_.emplace<MemcachedParser>();
  }

  // As those of the parsers.
  Status feed(const char* data, size_t size, size_t& used) {
    return std::visit([&](auto& parser) { return parser.feed(data, size, used); }, parser_);
  }
  bool is_error() const {
    return std::visit([](const auto& parser) { return parser.is_error(); }, parser_);
  }
  std::string_view error_text() const {
    return std::visit([](const auto& parser) { return parser.error_text(); }, parser_);
  }

  // The outcome of a request whose reply is the error.
  Outcome outcome() const {
    return is_memcached() ? classify_memcached_error(error_text()) : classify_error(error_text());
  }
  // For messages.
  std::string_view protocol() const {
    return is_memcached() ? "memcached's text protocol" : "RESP";
  }

 private:
  bool is_memcached() const { return std::holds_alternative<MemcachedParser>(parser_); }

  std::variant<ReplyParser, MemcachedParser> parser_;
};

}  // namespace rubato::load
