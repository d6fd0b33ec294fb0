// SPDX-License-Identifier: Apache-2.0
//
// RequestRecorder: writes every request of a running server to a file, as a trace
// (workload/request_trace.h), while that is wanted. Workers put records into rings
// (runtime/request_ring.h); a thread of its own orders them and writes chunks. What does not fit a
// ring is counted, in the file too. Borrows the rings. Any thread, but for finish().
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "metrics/open_metrics.h"
#include "runtime/request_ring.h"
#include "workload/request_trace.h"

namespace rubato {

struct RequestRecordingOptions {
  std::string file;                             // empty = there is no recorder
  uint64_t most_bytes = uint64_t{1} << 30;      // of the file
};

class RequestRecorder {
 public:
  // `rings` are those of a runtime (Runtime::request_rings), of which `type_name` names `types`
  // request types. Nothing is recorded yet.
  RequestRecorder(RequestRecordingOptions options, std::vector<RequestRing*> rings, uint32_t types,
                  const std::function<std::string(uint32_t)>& type_name);
  // Ends the recording, whatever comes of it.
  ~RequestRecorder();
  RequestRecorder(const RequestRecorder&) = delete;
  RequestRecorder& operator=(const RequestRecorder&) = delete;

  // Starts or ends the recording. Each start writes the file anew; who reads the one before still
  // has that. Fails with one line if it cannot be written. An error later, or the end of the bytes
  // that it may have, ends the recording and is logged.
  Status record(bool wanted);
  bool recording() const { return recording_.load(std::memory_order_relaxed); }

  struct Counts {
    uint64_t recorded = 0, dropped = 0;  // of all recordings
    uint64_t bytes = 0;                  // of the file
  };
  Counts counts() const;
  // Appends its families.
  void expose(OpenMetrics& out) const;

  // Records the rest, once the runtime has stopped. Fails with one line if the last recording has.
  Status finish();

 private:
  Status begin();
  Status end();
  void work();
  // Takes what the rings have; writes it if that is worth a chunk, or `all`.
  void collect(bool all);
  void take_records();
  void write(const std::string& bytes);
  void give_up(const std::string& why);
  uint64_t dropped_by_rings() const;

  const RequestRecordingOptions options_;
  const std::vector<RequestRing*> rings_;
  const std::string head_;  // of every file
  const uint32_t types_;
  mutable std::mutex mutex_;  // guards all below
  std::condition_variable wake_;
  std::vector<RequestRecord> batch_;
  TraceEncoder encoder_;
  int fd_ = -1;  // -1 = nothing is recorded
  Instant start_, wrote_at_;
  Counts counts_;
  uint64_t dropped_noted_ = 0;  // to the file, or before its time
  Status last_ = Done{};
  bool stopping_ = false;
  std::atomic<bool> recording_{false};  // fd_ >= 0, for who must not wait; relaxed
  std::thread thread_;
};

}  // namespace rubato
