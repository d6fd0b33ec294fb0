// SPDX-License-Identifier: Apache-2.0
//
// The bytes of the records that RocksEngine stores. Pure.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

namespace rubato::kv {

inline constexpr size_t kWordBytes = 8;
static_assert(std::endian::native == std::endian::little, "values are stored little endian");

// Big endian, so that the order of the bytes is the order of the numbers.
inline std::string ordered_word(uint64_t word) {
  const uint64_t swapped = __builtin_bswap64(word);
  std::string bytes(kWordBytes, '\0');
  std::memcpy(bytes.data(), &swapped, kWordBytes);
  return bytes;
}

inline std::string ordered_key(uint64_t word, std::string_view key) {
  std::string bytes = ordered_word(word);
  bytes.append(key);
  return bytes;
}

struct OrderedKey {
  uint64_t word = 0;
  std::string_view key;
};

inline std::optional<OrderedKey> parse_ordered_key(std::string_view bytes) {
  if (bytes.size() < kWordBytes) return std::nullopt;
  uint64_t swapped;
  std::memcpy(&swapped, bytes.data(), kWordBytes);
  return OrderedKey{__builtin_bswap64(swapped), bytes.substr(kWordBytes)};
}

inline std::string stored_word(uint64_t word) {
  std::string bytes(kWordBytes, '\0');
  std::memcpy(bytes.data(), &word, kWordBytes);
  return bytes;
}

// A value of format 1 is its expiry and its bytes. Since format 2 the version of the write stands
// between them, which the expiry's top bit, never set otherwise, says; both forms are read.
inline constexpr uint64_t kHasVersion = uint64_t{1} << 63;
inline constexpr uint64_t kNoVersion = 1;  // of a value from before there were versions

inline std::string value_header(int64_t expires_at_ms, uint64_t version) {
  const auto word = static_cast<uint64_t>(expires_at_ms);
  if (version == kNoVersion) return stored_word(word);
  return stored_word(word | kHasVersion) + stored_word(version);
}

struct StoredValue {
  int64_t expires_at_ms = 0;
  uint64_t version = kNoVersion;
  std::string_view value;
};

inline std::optional<StoredValue> parse_value(std::string_view bytes) {
  if (bytes.size() < kWordBytes) return std::nullopt;
  StoredValue stored;
  uint64_t word;
  std::memcpy(&word, bytes.data(), kWordBytes);
  stored.expires_at_ms = static_cast<int64_t>(word & ~kHasVersion);
  stored.value = bytes.substr(kWordBytes);
  if ((word & kHasVersion) == 0) return stored;
  if (stored.value.size() < kWordBytes) return std::nullopt;
  std::memcpy(&stored.version, stored.value.data(), kWordBytes);
  stored.value.remove_prefix(kWordBytes);
  return stored;
}

}  // namespace rubato::kv
