// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <ctime>

namespace rubato {
namespace {

struct EventRule {
  const char* name;
  bool limited;  // clients can cause as many as they like
};
constexpr std::array<EventRule, kLogEvents> kRules{{{"start", false},
                                                    {"stop", false},
                                                    {"reload", false},
                                                    {"signal", true},
                                                    {"state", false},
                                                    {"connections", true},
                                                    {"refused", true},
                                                    {"slow", true},
                                                    {"stalled", true},
                                                    {"best_effort", true},
                                                    {"profile", true},
                                                    {"store", true},
                                                    {"link", true}}};
constexpr uint32_t kLinesPerSecond = 10;

// The lines of one event in the present second. Relaxed: two threads at the turn of a second may
// let a line more or less through.
struct Limit {
  std::atomic<int64_t> second{0};
  std::atomic<uint32_t> lines{0};
  std::atomic<uint64_t> left_out{0};
};

// Plain atomics without a destructor: a signal handler may need them at any time.
std::atomic<LogLevel> g_level{LogLevel::kInfo};
std::atomic<LogFormat> g_format{LogFormat::kText};
std::atomic<int> g_file{STDERR_FILENO};
std::array<Limit, kLogEvents> g_limits;
static_assert(std::atomic<LogLevel>::is_always_lock_free);

using Millis = std::chrono::sys_time<std::chrono::milliseconds>;

Millis time_now() {
  timespec t{};
  ::clock_gettime(CLOCK_REALTIME, &t);
  return Millis(std::chrono::milliseconds(int64_t{t.tv_sec} * 1000 + t.tv_nsec / 1'000'000));
}

int64_t seconds_of(Millis time) { return time.time_since_epoch().count() / 1000; }

bool admit(Limit& limit, int64_t second) {
  int64_t seen = limit.second.load(std::memory_order_relaxed);
  if (seen != second &&
      limit.second.compare_exchange_strong(seen, second, std::memory_order_relaxed)) {
    limit.lines.store(0, std::memory_order_relaxed);
  }
  if (limit.lines.fetch_add(1, std::memory_order_relaxed) < kLinesPerSecond) return true;
  limit.left_out.fetch_add(1, std::memory_order_relaxed);
  return false;
}

// The bytes of a whole character of UTF-8 at the start, 0 = there is none.
size_t utf8_length(std::string_view text) {
  const auto byte = [text](size_t i) { return static_cast<unsigned char>(text[i]); };
  const size_t length = byte(0) >= 0xf0 ? 4 : byte(0) >= 0xe0 ? 3 : byte(0) >= 0xc2 ? 2 : 0;
  if (length == 0 || length > text.size() || byte(0) > 0xf4) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  const bool overlong = (byte(0) == 0xe0 && byte(1) < 0xa0) || (byte(0) == 0xf0 && byte(1) < 0x90);
  const bool no_character =
      (byte(0) == 0xed && byte(1) >= 0xa0) || (byte(0) == 0xf4 && byte(1) >= 0x90);
  return overlong || no_character ? 0 : length;
}

// A line as it is made. A pipe takes it whole, or not at all.
class Line {
 public:
  void put(std::string_view text) {
    const size_t fit = std::min(text.size(), bytes_.size() - size_);
    std::memcpy(bytes_.data() + size_, text.data(), fit);
    size_ += fit;
  }

  void put(int64_t number, int digits = 0) {
    std::array<char, 24> text;
    const auto [end, _] = std::to_chars(text.data(), text.data() + text.size(), number);
    for (auto length = end - text.data(); length < digits; ++length) put("0");
    put({text.data(), static_cast<size_t>(end - text.data())});
  }

  void put_time(Millis time) {
    const auto day = std::chrono::floor<std::chrono::days>(time);
    const std::chrono::year_month_day date(day);
    const std::chrono::hh_mm_ss hour(time - day);
    put(static_cast<int>(date.year()), 4);
    put("-");
    put(static_cast<unsigned>(date.month()), 2);
    put("-");
    put(static_cast<unsigned>(date.day()), 2);
    put("T");
    put(hour.hours().count(), 2);
    put(":");
    put(hour.minutes().count(), 2);
    put(":");
    put(hour.seconds().count(), 2);
    put(".");
    put(hour.subseconds().count(), 3);
    put("Z");
  }

  // Replaces what would end the line or move a terminal's cursor.
  void put_plain(std::string_view text) {
    for (const char c : text) {
      if (!has_room()) return;
      const auto byte = static_cast<unsigned char>(c);
      put(byte < 0x20 || byte == 0x7f ? std::string_view(" ") : std::string_view(&c, 1));
    }
  }

  void put_quoted(std::string_view text) {
    put("\"");
    while (!text.empty() && has_room()) {
      const auto byte = static_cast<unsigned char>(text[0]);
      const size_t length = byte < 0x80 ? 1 : utf8_length(text);
      if (byte == '"' || byte == '\\') put("\\");
      if (length == 0) {
        put("\\ufffd");
      } else if (byte < 0x20 || byte == 0x7f) {
        constexpr char kDigits[] = "0123456789abcdef";
        put("\\u00");
        put({&kDigits[byte >> 4], 1});
        put({&kDigits[byte & 15], 1});
      } else {
        put(text.substr(0, length));
      }
      text.remove_prefix(std::max<size_t>(length, 1));
    }
    put("\"");
  }

  // False: no more of a text, so that what has begun can be closed.
  bool has_room() const { return size_ < kTextEnds; }

  // False: it could not be written at once.
  bool write() {
    put("\n");
    const int file = g_file.load(std::memory_order_relaxed);
    pollfd ready{file, POLLOUT, 0};
    if (::poll(&ready, 1, 0) <= 0) return false;
    return ::write(file, bytes_.data(), size_) == static_cast<ssize_t>(size_);
  }

 private:
  static constexpr size_t kTextEnds = 3500;
  std::array<char, 4096> bytes_;
  size_t size_ = 0;
};

bool is_word(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return c > ' ' && c < 0x7f && c != '"' && c != '=' && c != '\\';
  });
}

void put_text(Line& line, Millis time, LogLevel level, LogEvent event, std::string_view message,
              std::initializer_list<LogField> fields, uint64_t left_out) {
  line.put_time(time);
  line.put(" ");
  line.put(kLogLevelChoices[static_cast<size_t>(level)].name);
  line.put(" ");
  line.put(kRules[static_cast<size_t>(event)].name);
  line.put(": ");
  line.put_plain(message);
  for (const LogField& field : fields) {
    if (!line.has_room()) break;
    line.put(" ");
    line.put(field.name);
    line.put("=");
    if (field.is_number) {
      line.put(field.number);
    } else if (is_word(field.text)) {
      line.put_plain(field.text);
    } else {
      line.put_quoted(field.text);
    }
  }
  if (left_out == 0) return;
  line.put(" (and ");
  line.put(static_cast<int64_t>(left_out));
  line.put(" more)");
}

void put_json(Line& line, Millis time, LogLevel level, LogEvent event, std::string_view message,
              std::initializer_list<LogField> fields, uint64_t left_out) {
  line.put("{\"time\":\"");
  line.put_time(time);
  line.put("\",\"level\":\"");
  line.put(kLogLevelChoices[static_cast<size_t>(level)].name);
  line.put("\",\"event\":\"");
  line.put(kRules[static_cast<size_t>(event)].name);
  line.put("\",\"message\":");
  line.put_quoted(message);
  const auto key = [&line](std::string_view name) {
    line.put(",\"");
    line.put(name);
    line.put("\":");
  };
  for (const LogField& field : fields) {
    if (!line.has_room()) break;
    key(field.name);
    if (field.is_number) {
      line.put(field.number);
    } else {
      line.put_quoted(field.text);
    }
  }
  if (left_out > 0) {
    key("and_more");
    line.put(static_cast<int64_t>(left_out));
  }
  line.put("}");
}

void write_line(Millis time, LogLevel level, LogEvent event, std::string_view message,
                std::initializer_list<LogField> fields) {
  Limit& limit = g_limits[static_cast<size_t>(event)];
  const uint64_t left_out = limit.left_out.exchange(0, std::memory_order_relaxed);
  const bool json = g_format.load(std::memory_order_relaxed) == LogFormat::kJson;
  Line line;
  (json ? put_json : put_text)(line, time, level, event, message, fields, left_out);
  const int interrupted = errno;
  if (!line.write()) limit.left_out.fetch_add(left_out + 1, std::memory_order_relaxed);
  errno = interrupted;
}

}  // namespace

void log_configure(LogLevel level, LogFormat format) {
  g_level.store(level, std::memory_order_relaxed);
  g_format.store(format, std::memory_order_relaxed);
}

// The file keeps its number for ever, so that a thread that has just read it writes to the old
// file or to the new one.
Status log_open(const std::string& path) {
  const int opened = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0640);
  if (opened < 0) return Error{"'" + path + "' cannot be opened: " + std::strerror(errno)};
  const int before = g_file.load(std::memory_order_relaxed);
  if (before == STDERR_FILENO) {
    g_file.store(opened, std::memory_order_relaxed);
    return Done{};
  }
  const bool moved = ::dup3(opened, before, O_CLOEXEC) >= 0;
  ::close(opened);
  return moved ? Status(Done{}) : Error{"'" + path + "' cannot be opened anew"};
}

bool logs_to_file() { return g_file.load(std::memory_order_relaxed) != STDERR_FILENO; }

void log_line(LogLevel level, LogEvent event, std::string_view message,
              std::initializer_list<LogField> fields) {
  if (level < g_level.load(std::memory_order_relaxed)) return;
  const Millis time = time_now();
  const auto index = static_cast<size_t>(event);
  if (kRules[index].limited && !admit(g_limits[index], seconds_of(time))) return;
  write_line(time, level, event, message, fields);
}

void log_left_out(bool all) {
  const Millis time = time_now();
  for (size_t i = 0; i < kLogEvents; ++i) {
    Limit& limit = g_limits[i];
    if (limit.left_out.load(std::memory_order_relaxed) == 0) continue;
    if (!all && limit.second.load(std::memory_order_relaxed) == seconds_of(time)) continue;
    write_line(time, LogLevel::kInfo, static_cast<LogEvent>(i), "lines were left out", {});
  }
}

}  // namespace rubato
