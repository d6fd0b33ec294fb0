// SPDX-License-Identifier: Apache-2.0
//
// ErrorLog: writes the errors of a store as lines for people. A full disk fails every write, so a
// line that was written within the last minute is left out; other lines come a few at once and then
// one in ten seconds. The next line gives the number of lines left out. Any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

namespace rubato::kv {

class ErrorLog {
 public:
  using Write = std::function<void(const std::string& line)>;

  // To the log of the server, by default.
  explicit ErrorLog(Write write = {});

  void say(std::string_view text);
  // The same at a time that the caller gives.
  void say_at(int64_t now_ms, std::string_view text);

 private:
  bool is_due(int64_t now_ms, const std::string& text);

  const Write write_;
  std::mutex mutex_;  // guards the rest
  std::map<std::string, int64_t> said_at_ms_;  // in the last minute
  int64_t room_ms_;   // for lines: each takes ten seconds of it
  int64_t last_ms_ = 0;
  uint64_t left_out_ = 0;
};

}  // namespace rubato::kv
