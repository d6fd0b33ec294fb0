// SPDX-License-Identifier: Apache-2.0
//
// Trace: what every simulated worker did and when, as a file for Perfetto (ui.perfetto.dev) and
// chrome://tracing: a Gantt of the workers, marks for steals and preemptions, the queues' depths.
//
// It streams: memory is one buffer, however long the run. It is bounded: after Limits::events, or
// outside of the window, events are dropped and counted. One thread at a time; the engine calls
// slice, span, mark and depth, the owner calls the rest. Times are virtual.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace rubato {

class Trace {
 public:
  static constexpr uint64_t kDefaultEvents = 1'000'000;
  static constexpr uint32_t kTimerCore = UINT32_MAX;  // the row of the timer core or dispatcher

  // Why a slice ended.
  enum class End : uint8_t { kFinished, kPreempted, kYielded };

  struct Limits {
    uint64_t events = kDefaultEvents;
    Instant from;                      // events that end before are left out,
    Instant until = Instant::never();  // and those that start at or after this
  };

  // Creates the file and writes the names of the rows: `row` and a number. `types` are the names of
  // the request types. Fails with one line when the file cannot be made.
  static Result<std::unique_ptr<Trace>> open(const std::string& path, const Limits& limits,
                                             uint32_t workers, std::vector<std::string> types,
                                             const std::string& row = "worker");

  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;
  ~Trace();

  struct Request {
    uint64_t number;
    uint32_t type;
    Instant arrived;
    uint32_t avoided = 0;  // quanta at whose end it went on, in this slice, as nothing waited
  };

  // `worker` ran `request` from `start` to `end`.
  void slice(uint32_t worker, const Request& request, Instant start, Instant end, End how) {
    if (wants(start, end)) write_slice(worker, request, start, end, how);
  }

  // `worker` (or kTimerCore) did something else: "poll", "steal", "switch", "idle". The spans and
  // slices of one row must not overlap. `what` needs no escaping in JSON.
  void span(uint32_t worker, const char* what, Instant start, Instant end) {
    if (wants(start, end)) write_span(worker, what, start, end);
  }

  // Something happened at one moment on that row: "steal", "stalled".
  void mark(uint32_t worker, const char* what, Instant at) {
    if (wants(at, at)) write_mark(worker, what, at);
  }

  // From now on `depth` jobs wait in that index of `queue` (QueueDeclaration::name).
  void depth(const char* queue, uint32_t index, Instant at, uint32_t depth) {
    if (wants(at, at)) write_depth(queue, index, at, depth);
  }

  // True once nothing more can be recorded: the limits are reached, or writing failed.
  bool full() const { return left_ == 0; }
  bool failed() const { return failure_ != 0; }
  uint64_t written() const { return limits_.events - left_ - unwritten_; }
  uint64_t dropped() const { return dropped_; }
  // So many events never came here.
  void drop(uint64_t events) { dropped_ += events; }

  // Completes and closes the file; nothing may be recorded afterwards. Fails with one line if
  // anything could not be written (a full disk).
  Status finish();

 private:
  struct Closer {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  Trace(std::string path, const Limits& limits, std::vector<std::string> types, std::FILE* file);

  bool wants(Instant start, Instant end) {
    if (end < limits_.from || start >= limits_.until) return false;
    if (left_ > 0) [[likely]]
      return true;
    ++dropped_;
    return false;
  }

  void write_slice(uint32_t worker, const Request& request, Instant start, Instant end, End how);
  void write_span(uint32_t worker, const char* what, Instant start, Instant end);
  void write_mark(uint32_t worker, const char* what, Instant at);
  void write_depth(const char* queue, uint32_t index, Instant at, uint32_t depth);
  void write_rows(uint32_t workers, const std::string& row);
  void begin_event(char phase, uint32_t row, Instant at);
  void end_event();
  void add(std::string_view text) { buffer_ += text; }
  void add_number(uint64_t number);
  void add_micros(int64_t ns);
  void flush();
  void fail(int error);

  std::string path_;
  Limits limits_;
  std::vector<std::string> types_;  // as JSON strings, quotes included
  std::unique_ptr<std::FILE, Closer> file_;
  std::string buffer_;
  uint64_t left_;           // events that may still be written
  uint64_t unwritten_ = 0;  // of the allowed ones: given up, as the trace ended before
  uint64_t dropped_ = 0;
  int failure_ = 0;  // errno of the first write that failed
};

}  // namespace rubato
