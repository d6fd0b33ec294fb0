// SPDX-License-Identifier: Apache-2.0
#include "kv_server/server/slowlog.h"

#include <algorithm>
#include <utility>

namespace rubato::kv {

void SlowLog::add(SlowEntry entry, size_t max_entries) {
  const std::lock_guard lock(mutex_);
  entry.id = next_id_++;
  entries_.push_front(std::move(entry));
  while (entries_.size() > max_entries) entries_.pop_back();
}

std::vector<SlowEntry> SlowLog::newest(size_t limit) const {
  const std::lock_guard lock(mutex_);
  const size_t count = std::min(limit, entries_.size());
  return {entries_.begin(), entries_.begin() + static_cast<ptrdiff_t>(count)};
}

size_t SlowLog::size() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

void SlowLog::reset() {
  const std::lock_guard lock(mutex_);
  entries_.clear();
}

std::vector<std::string> SlowLog::trim(std::span<const std::string_view> argv) {
  std::vector<std::string> out;
  const size_t kept = std::min(argv.size(), kMaxArgs);
  for (size_t i = 0; i < kept; ++i) {
    if (i == kMaxArgs - 1 && argv.size() > kMaxArgs) {
      out.push_back("... (" + std::to_string(argv.size() - kMaxArgs + 1) + " more arguments)");
    } else if (argv[i].size() > kMaxArgBytes) {
      out.emplace_back(argv[i].substr(0, kMaxArgBytes));
      out.back() += "... (" + std::to_string(argv[i].size() - kMaxArgBytes) + " more bytes)";
    } else {
      out.emplace_back(argv[i]);
    }
  }
  return out;
}

}  // namespace rubato::kv
