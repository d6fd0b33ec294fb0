// SPDX-License-Identifier: Apache-2.0
//
// The parser consumes all bytes that a server may send, and its result does not depend on how the
// bytes are cut.
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "load/reply_parser.h"

namespace {

using rubato::load::ReplyParser;

struct Result {
  uint64_t replies = 0, errors = 0;
  bool broken = false;
};

Result parse(const char* data, size_t size, size_t piece) {
  ReplyParser parser;
  Result result;
  for (size_t at = 0; at < size; at += piece) {
    const size_t end = size - at < piece ? size : at + piece;
    for (size_t i = at; i < end;) {
      size_t used = 0;
      const ReplyParser::Status status = parser.feed(data + i, end - i, used);
      RUBATO_CHECK(used <= end - i);
      if (status == ReplyParser::Status::kBroken) {
        result.broken = true;
        return result;
      }
      RUBATO_CHECK(used > 0);
      i += used;
      if (status != ReplyParser::Status::kReply) continue;
      ++result.replies;
      result.errors += parser.is_error();
    }
  }
  return result;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const char* bytes = reinterpret_cast<const char*>(data);
  const Result whole = parse(bytes, size, size + 1);
  const Result cut = parse(bytes, size, size > 0 ? 1 + data[0] % 7 : 1);
  RUBATO_CHECK(whole.replies == cut.replies && whole.errors == cut.errors);
  RUBATO_CHECK(whole.broken == cut.broken);
  return 0;
}
