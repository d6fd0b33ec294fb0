// SPDX-License-Identifier: Apache-2.0
#include "api/framing.h"

namespace rubato::api {

Found find_prefixed(std::string_view unread, size_t max_payload_bytes) {
  if (unread.size() < kPrefixBytes) return {};
  size_t size = 0;
  for (size_t i = 0; i < kPrefixBytes; ++i) size = size << 8 | static_cast<uint8_t>(unread[i]);
  if (size > max_payload_bytes) return {Found::State::kTooLarge, unread.size(), 0, 0};
  const size_t length = kPrefixBytes + size;
  if (unread.size() < length) return {Found::State::kIncomplete, length, 0, 0};
  return {Found::State::kComplete, length, kPrefixBytes, size};
}

std::string prefix_of(size_t payload_bytes) {
  std::string prefix;
  for (size_t i = kPrefixBytes; i > 0; --i) {
    prefix.push_back(static_cast<char>(payload_bytes >> (8 * (i - 1)) & 0xff));
  }
  return prefix;
}

Found LineFinder::find(std::string_view unread, size_t max_payload_bytes) {
  const size_t newline = unread.find('\n', looked_at_);
  // One byte more than the limit may be the carriage return that does not count.
  const bool too_large = (newline == std::string_view::npos ? unread.size() : newline) >
                         max_payload_bytes + 1;
  if (too_large) {
    looked_at_ = 0;
    return {Found::State::kTooLarge, unread.size(), 0, 0};
  }
  if (newline == std::string_view::npos) {
    looked_at_ = unread.size();
    return {};
  }
  looked_at_ = 0;
  const bool carriage = newline > 0 && unread[newline - 1] == '\r';
  const size_t payload = newline - (carriage ? 1 : 0);
  if (payload > max_payload_bytes) return {Found::State::kTooLarge, unread.size(), 0, 0};
  return {Found::State::kComplete, newline + 1, 0, payload};
}

}  // namespace rubato::api
