// SPDX-License-Identifier: Apache-2.0
//
// The operations that all engines share, in terms of the virtual ones.
#include "kv_server/engine/engine.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace rubato::kv {

Outcome Engine::set_many(std::span<const KeyValue> items, bool only_if_none_exists) {
  // The last of equal keys, in the order of the keys.
  std::vector<size_t> order(items.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const int by_key = items[a].key.compare(items[b].key);
    return by_key != 0 ? by_key < 0 : a > b;
  });
  const auto same = [&](size_t a, size_t b) { return items[a].key == items[b].key; };
  order.erase(std::unique(order.begin(), order.end(), same), order.end());
  std::vector<std::string_view> keys;
  keys.reserve(order.size());
  for (const size_t i : order) keys.push_back(items[i].key);
  return update_many(keys, [&](std::span<const Current> now, std::span<Change> changes) {
    const auto exists = [](const Current& current) { return current.exists; };
    if (only_if_none_exists && std::any_of(now.begin(), now.end(), exists)) return;
    for (size_t i = 0; i < order.size(); ++i) changes[i] = Change::put(items[order[i]].value);
  });
}

Status Engine::backup(const std::string&) {
  return Error{"the " + std::string(name()) + " engine keeps nothing, so there is no backup of it"};
}

}  // namespace rubato::kv
