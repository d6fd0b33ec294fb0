// SPDX-License-Identifier: Apache-2.0
//
// The format of memcached's items in an engine whose values are plain bytes, shared with RESP
// clients. An item without flags is its data. An item with flags has a mark and the flags in front
// of its data, which RESP clients see; so has an item whose data begin like a mark. One that is
// stale, or is being fetched by the client that was told to, has another mark, and its state behind
// the flags. A cas token is the version that the engine gives each write. Pure.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace rubato::kv {

// protocol.txt of memcached 1.6, "Meta Commands".
struct ItemState {
  bool stale = false;
  bool token_sent = false;  // some client was told to fetch it anew

  bool operator==(const ItemState&) const = default;
};

struct MemcachedItem {
  uint32_t flags = 0;
  std::string_view data;
  ItemState state;
};

inline constexpr std::string_view kItemMarks{"\0mc", 3};
inline constexpr char kPlainItem = 1;
inline constexpr char kItemWithState = 2;
inline constexpr size_t kItemHeaderBytes = kItemMarks.size() + 1 + sizeof(uint32_t);

inline MemcachedItem read_item(std::string_view value) {
  MemcachedItem item{0, value, {}};
  if (value.size() < kItemHeaderBytes || !value.starts_with(kItemMarks)) return item;
  const char kind = value[kItemMarks.size()];
  const bool has_state = kind == kItemWithState && value.size() > kItemHeaderBytes;
  if (kind != kPlainItem && !has_state) return item;
  std::memcpy(&item.flags, value.data() + kItemMarks.size() + 1, sizeof item.flags);
  item.data = value.substr(kItemHeaderBytes + (has_state ? 1 : 0));
  if (has_state) {
    const char state = value[kItemHeaderBytes];
    item.state = {(state & 1) != 0, (state & 2) != 0};
  }
  return item;
}

// `data` itself if the item needs no mark, else the item built in `room`.
inline std::string_view write_item(uint32_t flags, std::string_view data, std::string& room,
                                   ItemState state = {}) {
  const bool has_state = state != ItemState();
  if (flags == 0 && !has_state && !data.starts_with(kItemMarks)) return data;
  room.assign(kItemMarks);
  room.push_back(has_state ? kItemWithState : kPlainItem);
  room.append(reinterpret_cast<const char*>(&flags), sizeof flags);
  if (has_state) {
    room.push_back(static_cast<char>((state.stale ? 1 : 0) | (state.token_sent ? 2 : 0)));
  }
  room.append(data);
  return room;
}

}  // namespace rubato::kv
