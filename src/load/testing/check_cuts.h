// SPDX-License-Identifier: Apache-2.0
//
// What holds for every parser of replies, whatever a server sends: it consumes all bytes until it
// is broken, and its result does not depend on how the bytes are cut. For tests and fuzz targets.
// Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"

namespace rubato::load {

struct ParsedReplies {
  uint64_t replies = 0, errors = 0;
  bool broken = false;
  bool operator==(const ParsedReplies&) const = default;
};

template <typename Parser>
ParsedReplies parse_in_pieces(const char* data, size_t size, size_t piece) {
  Parser parser;
  ParsedReplies result;
  for (size_t at = 0; at < size; at += piece) {
    const size_t end = size - at < piece ? size : at + piece;
    for (size_t i = at; i < end;) {
      size_t used = 0;
      const typename Parser::Status status = parser.feed(data + i, end - i, used);
      RUBATO_CHECK(used <= end - i);
      if (status == Parser::Status::kBroken) {
        result.broken = true;
        return result;
      }
      RUBATO_CHECK(used > 0);
      i += used;
      if (status != Parser::Status::kReply) continue;
      ++result.replies;
      result.errors += parser.is_error();
    }
  }
  return result;
}

// How many replies ended, or -1 when the bytes, fed in pieces of `piece`, broke the parser.
template <typename Parser>
int count_replies(std::string_view bytes, size_t piece) {
  const ParsedReplies parsed = parse_in_pieces<Parser>(bytes.data(), bytes.size(), piece);
  return parsed.broken ? -1 : static_cast<int>(parsed.replies);
}

template <typename Parser>
void check_cuts(const uint8_t* data, size_t size) {
  const char* bytes = reinterpret_cast<const char*>(data);
  const ParsedReplies whole = parse_in_pieces<Parser>(bytes, size, size + 1);
  const ParsedReplies cut = parse_in_pieces<Parser>(bytes, size, size > 0 ? 1 + data[0] % 7 : 1);
  RUBATO_CHECK(whole == cut);
}

}  // namespace rubato::load
