// SPDX-License-Identifier: Apache-2.0
//
// The parser gets any bytes, at once and cut short: a request is the same whatever follows it, is
// not complete any shorter, and every view lies within it.
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "kv_server/memcached/parser.h"

namespace {

using rubato::kv::MemcachedParser;
using rubato::kv::MemcachedRequest;
using rubato::kv::MemcachedVerb;

void require(bool holds) {
  if (!holds) std::abort();
}

// Data that are not wanted are taken as they come.
bool skips(const MemcachedRequest& request) {
  return request.too_large || request.verb == MemcachedVerb::kBad ||
         request.verb == MemcachedVerb::kSkipped;
}

bool within(std::string_view part, std::string_view whole) {
  return part.empty() || (part.data() >= whole.data() &&
                          part.data() + part.size() <= whole.data() + whole.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view input(reinterpret_cast<const char*>(data), size);
  MemcachedParser parser;
  MemcachedRequest whole;
  MemcachedRequest alone;
  size_t wanted = 0;
  while (!input.empty()) {
    const MemcachedParser before = parser;
    const size_t length = parser.parse(input, whole, wanted);
    require(length <= input.size());
    require(wanted == 0 || wanted > input.size());
    if (length == 0) break;
    for (const std::string_view key : whole.keys) require(within(key, input.substr(0, length)));
    require(within(whole.data, input.substr(0, length)));
    // Exactly as long as the request, for AddressSanitizer.
    const std::vector<char> copy(input.begin(), input.begin() + static_cast<ptrdiff_t>(length));
    MemcachedParser again = before;
    require(again.parse({copy.data(), copy.size()}, alone, wanted) == length);
    require(alone.verb == whole.verb && alone.keys == whole.keys && alone.data == whole.data &&
            alone.error == whole.error && alone.number == whole.number);
    if (whole.close) break;
    again = before;
    const size_t less = again.parse(input.substr(0, length - 1), alone, wanted);
    require(less == 0 || (less == length - 1 && skips(alone)));
    input.remove_prefix(length);
  }
  return 0;
}
