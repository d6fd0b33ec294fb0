// SPDX-License-Identifier: Apache-2.0
//
// The parser gets any bytes, at once and in pieces whose size the first byte sets, and must give
// the same result both times. Every argument is read, so that a view outside the input is found.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "kv_server/resp/parser.h"

namespace {

using rubato::kv::ParserLimits;
using rubato::kv::RequestParser;

struct Outcome {
  RequestParser::State state = RequestParser::State::kIncomplete;
  std::vector<std::string> words;
  size_t length = 0;
  std::string error;
  bool operator==(const Outcome&) const = default;
};

Outcome outcome(const RequestParser& parser, RequestParser::State state) {
  Outcome out;
  out.state = state;
  if (state == RequestParser::State::kError) out.error = parser.error();
  if (state != RequestParser::State::kComplete) return out;
  out.length = parser.length();
  out.words.assign(parser.argv().begin(), parser.argv().end());
  return out;
}

// Small limits, so that the fuzzer reaches them.
ParserLimits small_limits() {
  ParserLimits limits;
  limits.args = 64;
  limits.bulk_bytes = 256;
  limits.line_bytes = 48;
  limits.unauthenticated_args = 4;
  limits.unauthenticated_bulk_bytes = 16;
  return limits;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const size_t step = 1 + (data[0] & 0x0f);
  const bool authenticated = (data[0] & 0x80) != 0;
  std::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);
  RequestParser at_once(small_limits());
  RequestParser in_pieces(small_limits());
  while (!input.empty()) {
    const Outcome whole = outcome(at_once, at_once.parse(input, authenticated));
    Outcome pieces;
    std::vector<char> copy;  // exactly as long as the input, for AddressSanitizer
    for (size_t given = 0; given < input.size();) {
      given = std::min(input.size(), given + step);
      copy = std::vector<char>(input.begin(), input.begin() + static_cast<ptrdiff_t>(given));
      const auto state = in_pieces.parse({copy.data(), copy.size()}, authenticated);
      pieces = outcome(in_pieces, state);
      if (state != RequestParser::State::kIncomplete) break;
    }
    if (!(whole == pieces)) std::abort();
    if (whole.state != RequestParser::State::kComplete) break;
    if (whole.length == 0 || whole.length > input.size()) std::abort();
    input.remove_prefix(whole.length);
    at_once.reset();
    in_pieces.reset();
  }
  return 0;
}
