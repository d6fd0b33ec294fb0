// SPDX-License-Identifier: Apache-2.0
//
// The format of memcached's items in an engine whose values are plain bytes, shared with RESP
// clients. An item without flags is its data. An item with flags has a mark and the flags in front
// of its data, which RESP clients see; so has an item whose data begin with the mark. A cas token
// is the version that the engine gives each write. Pure.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace rubato::kv {

struct MemcachedItem {
  uint32_t flags = 0;
  std::string_view data;
};

inline constexpr std::string_view kItemMark{"\0mc\1", 4};
inline constexpr size_t kItemHeaderBytes = kItemMark.size() + sizeof(uint32_t);

inline MemcachedItem read_item(std::string_view value) {
  MemcachedItem item{0, value};
  if (value.size() < kItemHeaderBytes || !value.starts_with(kItemMark)) return item;
  std::memcpy(&item.flags, value.data() + kItemMark.size(), sizeof item.flags);
  item.data = value.substr(kItemHeaderBytes);
  return item;
}

// `data` itself if the item needs no mark, else the item built in `room`.
inline std::string_view write_item(uint32_t flags, std::string_view data, std::string& room) {
  if (flags == 0 && !data.starts_with(kItemMark)) return data;
  room.assign(kItemMark);
  room.append(reinterpret_cast<const char*>(&flags), sizeof flags);
  room.append(data);
  return room;
}

}  // namespace rubato::kv
