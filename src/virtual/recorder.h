// SPDX-License-Identifier: Apache-2.0
//
// Recorder: the last things that the threads of a world did, and when, for a trace of a failing
// run. Memory is bounded: older events are overwritten. One for the process, as there is one world
// at a time; it keeps what it has until the next world begins. For the library's own files.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "base/time.h"

namespace rubato::virt {

class Recorder {
 public:
  static constexpr size_t kEvents = size_t{1} << 16;

  static Recorder& of_process();

  // A new world begins.
  void begin() { count_ = threads_ = 0; }
  void note_thread(uint32_t thread) { threads_ = thread + 1; }
  // The thread did `what`, a literal. Those of one thread do not overlap.
  void span(uint32_t thread, const char* what, Instant from, Instant to) {
    if (to > from) events_[count_++ % kEvents] = {what, from, to, thread};
  }
  void mark(uint32_t thread, const char* what, Instant at) {
    events_[count_++ % kEvents] = {what, at, Instant::never(), thread};
  }

  // For Perfetto and chrome://tracing. False = there is nothing, or the file cannot be written.
  bool write(const std::string& path) const;

 private:
  struct Event {
    const char* what = nullptr;
    Instant from;
    Instant to;  // never = a mark
    uint32_t thread = 0;
  };

  std::array<Event, kEvents> events_;
  uint64_t count_ = 0;  // so far; the last kEvents are kept
  uint32_t threads_ = 0;
};

}  // namespace rubato::virt
