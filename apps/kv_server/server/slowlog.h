// SPDX-License-Identifier: Apache-2.0
//
// SlowLog: the last requests whose wait + service was long, newest first. Bounded by length and,
// per entry, by the trimming that Redis does. Any thread; only slow requests take the lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "runtime/app.h"

namespace rubato::kv {

struct SlowEntry {
  int64_t id = 0;
  int64_t unix_time_s = 0;
  Completion times;
  std::vector<std::string> argv;  // trimmed
  std::string client_address;
  std::string client_name;
};

class SlowLog {
 public:
  static constexpr size_t kMaxArgs = 32;
  static constexpr size_t kMaxArgBytes = 128;

  // Keeps the newest `max_entries`; the id is set here.
  void add(SlowEntry entry, size_t max_entries);

  // At most `limit` entries, newest first.
  std::vector<SlowEntry> newest(size_t limit) const;
  size_t size() const;
  void reset();

  // The arguments as an entry keeps them: at most kMaxArgs of at most kMaxArgBytes, with a note of
  // what was left out.
  static std::vector<std::string> trim(std::span<const std::string_view> argv);

 private:
  mutable std::mutex mutex_;
  std::deque<SlowEntry> entries_;
  int64_t next_id_ = 0;
};

}  // namespace rubato::kv
