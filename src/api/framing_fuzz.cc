// SPDX-License-Identifier: Apache-2.0
//
// Both framings over any bytes: a request lies inside the input, its end is the same however the
// bytes are cut, and no request is larger than allowed.
#include <cstdint>

#include "api/framing.h"
#include "base/check.h"

namespace rubato::api {
namespace {

constexpr size_t kMax = 64;

void check_found(const Found& found, std::string_view unread) {
  if (found.state != Found::State::kComplete) return;
  RUBATO_CHECK(found.length > 0 && found.length <= unread.size());
  RUBATO_CHECK(found.payload_bytes <= kMax);
  RUBATO_CHECK(found.offset + found.payload_bytes <= found.length);
}

void check_all(std::string_view bytes) {
  while (!bytes.empty()) {
    const Found prefixed = find_prefixed(bytes, kMax);
    check_found(prefixed, bytes);
    if (prefixed.state != Found::State::kComplete) return;
    bytes.remove_prefix(prefixed.length);
  }
}

void check_lines(std::string_view bytes) {
  while (!bytes.empty()) {
    const Found whole = LineFinder().find(bytes, kMax);
    check_found(whole, bytes);
    LineFinder gradual;
    for (size_t size = 1; size <= bytes.size(); ++size) {
      const Found part = gradual.find(bytes.substr(0, size), kMax);
      if (part.state == Found::State::kIncomplete) continue;
      RUBATO_CHECK(part.state == whole.state);
      RUBATO_CHECK(part.state != Found::State::kComplete || part.length == whole.length);
      break;
    }
    if (whole.state != Found::State::kComplete) return;
    bytes.remove_prefix(whole.length);
  }
}

}  // namespace
}  // namespace rubato::api

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  rubato::api::check_all(bytes);
  rubato::api::check_lines(bytes);
  return 0;
}
