// SPDX-License-Identifier: Apache-2.0
//
// RequestRecorder: writes every request of a running server to a file, as a trace
// (workload/request_trace.h), while that is wanted. What workers put into rings comes from a feed
// (runtime/request_feed.h), and is ordered and written in chunks. What finds no room is counted, in
// the file too. Borrows the feed. Any thread, but for finish().
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "metrics/counter.h"
#include "runtime/recording.h"
#include "runtime/request_feed.h"
#include "workload/request_trace.h"

namespace rubato {

struct RequestRecordingOptions {
  std::string file;                             // empty = there is no recorder
  uint64_t most_bytes = uint64_t{1} << 30;      // of the file
};

class RequestRecorder final : public Recording {
 public:
  // `type_name` names the `types` request types of the feed. Nothing is recorded yet.
  RequestRecorder(RequestRecordingOptions options, RequestFeed& feed, uint32_t types,
                  const std::function<std::string(uint32_t)>& type_name);
  ~RequestRecorder() override { close(); }

  struct Counts {
    uint64_t recorded = 0, dropped = 0;  // of all recordings
  };
  // Waits for no disk.
  Counts counts() const { return {recorded_.value(), unwritten_.value() + requests_.dropped()}; }
  void expose(OpenMetrics& out) const override;
  Status finish() override;

 private:
  Status begin() override;
  Status end() override;
  bool collect(Status& error) override;
  // Takes what the rings have; writes it if that is worth a chunk, or `all`.
  void collect_requests(bool all);
  void take_records();
  void write(const std::string& bytes);
  // Logs why and closes the file.
  void give_up(const std::string& why);

  const RequestRecordingOptions options_;
  const std::string head_;  // of every file
  const uint32_t types_;
  RequestFeed::Reader requests_;
  std::vector<RequestRecord> batch_;
  TraceEncoder encoder_;
  int fd_ = -1;  // -1 = nothing is recorded
  Instant start_, wrote_at_;
  uint64_t bytes_ = 0;         // of the file
  uint64_t without_flow_ = 0;  // requests so far, of all recordings
  // Raised by one thread at a time: Recording holds a lock.
  Counter recorded_;
  Counter unwritten_;  // came, but did not fit into the file
  uint64_t dropped_noted_ = 0;  // to the file, or before its time
  Status failure_ = Done{};     // of this recording
};

}  // namespace rubato
