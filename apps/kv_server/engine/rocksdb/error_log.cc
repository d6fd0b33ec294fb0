// SPDX-License-Identifier: Apache-2.0
#include "kv_server/engine/rocksdb/error_log.h"

#include <algorithm>
#include <chrono>

#include "base/log.h"

namespace rubato::kv {
namespace {

constexpr int64_t kSameMs = 60'000;
constexpr int64_t kLineMs = 10'000;
constexpr int64_t kMostAtOnce = 5;

// Writes to the store wait for this call, and log_line does not.
void write_to_log(const std::string& line) { log_line(LogLevel::kError, LogEvent::kStore, line); }

}  // namespace

ErrorLog::ErrorLog(Write write)
    : write_(write ? std::move(write) : write_to_log), room_ms_(kMostAtOnce * kLineMs) {}

void ErrorLog::say(std::string_view text) {
  const auto since_boot = std::chrono::steady_clock::now().time_since_epoch();
  say_at(std::chrono::duration_cast<std::chrono::milliseconds>(since_boot).count(), text);
}

void ErrorLog::say_at(int64_t now_ms, std::string_view text) {
  const std::lock_guard guard(mutex_);
  std::string line(text);
  std::replace_if(line.begin(), line.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
  if (!is_due(now_ms, line)) {
    ++left_out_;
    return;
  }
  said_at_ms_[line] = now_ms;
  if (left_out_ > 0) line += " (" + std::to_string(left_out_) + " lines before it left out)";
  left_out_ = 0;
  write_(line);
}

bool ErrorLog::is_due(int64_t now_ms, const std::string& text) {
  room_ms_ = std::min(room_ms_ + now_ms - last_ms_, kMostAtOnce * kLineMs);
  last_ms_ = now_ms;
  std::erase_if(said_at_ms_, [&](const auto& said) { return now_ms - said.second >= kSameMs; });
  if (room_ms_ < kLineMs || said_at_ms_.contains(text)) return false;
  room_ms_ -= kLineMs;
  return true;
}

}  // namespace rubato::kv
