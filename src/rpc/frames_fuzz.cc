// SPDX-License-Identifier: Apache-2.0
//
// Decodes any bytes as frames of either side: a frame lies inside the input, is the same however
// the bytes are cut, and encodes to the bytes it was found in.
#include <cstdint>
#include <string>

#include "base/check.h"
#include "rpc/frames.h"

namespace rubato::rpc {
namespace {

constexpr size_t kMaxBody = 64;

void check_message(const Decoded& found, std::string_view bytes) {
  RUBATO_CHECK(found.length >= kHeaderBytes && found.length <= bytes.size());
  RUBATO_CHECK(found.message.body.size() == found.length - kHeaderBytes);
  std::string again;
  encode(again, found.message);
  RUBATO_CHECK(again == bytes.substr(0, found.length));
  static_cast<void>(decode_refusal(found.message.body));
  static_cast<void>(decode_load(found.message.body));
  if (found.message.kind == Kind::kRankedRequest) {
    static_cast<void>(decode_rank(found.message.body));
  }
}

// Bytes that come one by one decode to the same frame, neither too early nor too late.
void check_cut(const Decoded& whole, std::string_view bytes, Side from) {
  for (size_t size = 0; size <= bytes.size(); ++size) {
    const Decoded part = decode(bytes.substr(0, size), from, kMaxBody);
    if (part.state == Decoded::State::kIncomplete) {
      RUBATO_CHECK(part.length == 0 || part.length > size);
      continue;
    }
    RUBATO_CHECK(part.state == whole.state && part.fault == whole.fault);
    RUBATO_CHECK(part.length == whole.length);
    return;
  }
  RUBATO_CHECK(whole.state == Decoded::State::kIncomplete);
}

void check_stream(std::string_view bytes, Side from) {
  while (!bytes.empty()) {
    const Decoded found = decode(bytes, from, kMaxBody);
    check_cut(found, bytes, from);
    if (found.state != Decoded::State::kComplete) return;
    check_message(found, bytes);
    bytes.remove_prefix(found.length);
  }
}

}  // namespace
}  // namespace rubato::rpc

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  rubato::rpc::check_stream(bytes, rubato::rpc::Side::kClient);
  rubato::rpc::check_stream(bytes, rubato::rpc::Side::kServer);
  return 0;
}
