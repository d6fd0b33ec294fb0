// SPDX-License-Identifier: Apache-2.0
//
// ReplyReader: the parser of replies of a target's protocol: RESP, memcached's text protocol or
// HTTP/1.1. Pure; one owner at a time.
#pragma once

#include <cstddef>
#include <string_view>
#include <variant>

#include "load/http_parser.h"
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
    if (protocol == Protocol::kHttp) parser_.emplace<HttpParser>();
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

  // The connection has ended: true if that is the end of a reply. After that, or after kReply:
  // closes() says that the server takes no further request on the connection. HTTP alone has this.
  bool end_of_stream() {
    HttpParser* const http = std::get_if<HttpParser>(&parser_);
    return http != nullptr && http->end_of_stream();
  }
  bool closes() const {
    const HttpParser* const http = std::get_if<HttpParser>(&parser_);
    return http != nullptr && http->closes();
  }

  // The outcome of a request whose reply is the error.
  Outcome outcome() const {
    if (is<MemcachedParser>()) return classify_memcached_error(error_text());
    return is<HttpParser>() ? classify_http_error(error_text()) : classify_error(error_text());
  }
  // For messages.
  std::string_view protocol() const {
    if (is<MemcachedParser>()) return "memcached's text protocol";
    return is<HttpParser>() ? "HTTP/1.1" : "RESP";
  }

 private:
  template <class Parser>
  bool is() const {
    return std::holds_alternative<Parser>(parser_);
  }

  std::variant<ReplyParser, MemcachedParser, HttpParser> parser_;
};

}  // namespace rubato::load
