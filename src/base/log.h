// SPDX-License-Identifier: Apache-2.0
//
// The log of a program: lines with a time, a level and an event, on standard error or in a file, as
// text or JSON. One per process. Nothing here takes a lock, allocates (but for log_open) or waits,
// so that any thread, a request that may be preempted and a signal handler may write a line: a line
// that the file does not take at once is left out. Of events that clients cause only a few lines
// per second are written; the next line tells how many were left out.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "base/option_info.h"
#include "base/result.h"

namespace rubato {

enum class LogLevel : uint8_t { kDebug, kInfo, kWarning, kError };
enum class LogFormat : uint8_t { kText, kJson };

inline constexpr std::array kLogLevelChoices{
    OptionChoice{"debug", "also what only developers need"},
    OptionChoice{"info", "also starts, stops, changes and slow requests"},
    OptionChoice{"warning", "also what needs a look some day"},
    OptionChoice{"error", "what needs a look now"},
};
constexpr std::span<const OptionChoice> choices_of(LogLevel) { return kLogLevelChoices; }

inline constexpr std::array kLogFormatChoices{
    OptionChoice{"text", "for people"},
    OptionChoice{"json", "an object per line"},
};
constexpr std::span<const OptionChoice> choices_of(LogFormat) { return kLogFormatChoices; }

enum class LogEvent : uint8_t {
  kStart,
  kStop,
  kReload,
  kSignal,
  kState,        // an answer to the question what the server does now
  kConnections,
  kRefused,
  kSlow,
  kStalled,
  kBestEffort,
  kProfile,
  kStore,
  kLink,  // what a datapath has below it
};
inline constexpr size_t kLogEvents = 13;

// A name and a value behind the message. Borrows its texts.
struct LogField {
  LogField(std::string_view the_name, std::string_view the_text)
      : name(the_name), text(the_text) {}
  template <std::integral Integer>
  LogField(std::string_view the_name, Integer the_number)
      : name(the_name), number(static_cast<int64_t>(the_number)), is_number(true) {}

  std::string_view name;  // [a-z0-9_]
  std::string_view text;
  int64_t number = 0;
  bool is_number = false;
};

// Any thread. Lines below the level are left out.
void log_configure(LogLevel level, LogFormat format);

// From now on lines go to the end of this file, which is made if there is none; called again, it
// opens the name anew, as after a rotation. Fails with one line, and then lines go where they went
// before. One thread at a time.
Status log_open(const std::string& path);

// True if lines go to a file.
bool logs_to_file();

// Writes a line. Any thread; safe in a signal handler. Control characters are replaced; a message
// is cut at some 3000 bytes.
void log_line(LogLevel level, LogEvent event, std::string_view message,
              std::initializer_list<LogField> fields = {});

// Tells of lines that were left out and that no line has told of. Call it about once a second, and
// at the end with `all`, which does not wait for the end of a second. One thread at a time.
void log_left_out(bool all = false);

}  // namespace rubato
