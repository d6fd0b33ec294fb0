// SPDX-License-Identifier: Apache-2.0
//
// TrafficRecorder: writes the figures of a running server's requests to a file, as a profile
// (workload/traffic_profile.h), every ten seconds, at the end and when it is told to. It works on a
// thread of its own, from counters and histograms that the workers keep anyway; only arrivals are
// counted for it (RuntimeOptions::record_arrivals). Borrows the runtime and the datapath.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "base/result.h"
#include "runtime/arrival_recorder.h"
#include "runtime/replaced_file.h"
#include "runtime/runtime.h"
#include "workload/traffic_profile.h"

namespace rubato {

struct RecordingOptions {
  std::string file;              // empty = nothing is recorded
  Nanos length = Nanos::max();   // from the first request on
  std::string version;           // of the program, for the file
  // Request types whose requests belong to the control plane, which a profile leaves out.
  std::function<bool(uint32_t)> is_control;
};

class TrafficRecorder {
 public:
  // Fails with one line if the file cannot be written. `type_name` names `types` request types.
  static Result<std::unique_ptr<TrafficRecorder>> start(
      const RecordingOptions& options, Runtime& runtime, const Datapath& datapath, uint32_t types,
      const std::function<std::string(uint32_t)>& type_name);
  // Without finish() the file keeps its last version.
  ~TrafficRecorder();
  TrafficRecorder(const TrafficRecorder&) = delete;
  TrafficRecorder& operator=(const TrafficRecorder&) = delete;

  // Writes the file as it is now; once the runtime stops, with all arrivals. Fails with one line if
  // it cannot be written or fewer than two requests came. Any thread that may wait for a disk.
  Status write_now();
  // Records the rest and writes the file for the last time; called once, after the runtime has
  // stopped. Fails with one line if the file cannot be written. Logs the failed writes in
  // between, and a missing file because too few requests came.
  Status finish();

 private:
  TrafficRecorder(RecordingOptions options, Runtime& runtime, const Datapath& datapath,
                  uint32_t types, std::function<std::string(uint32_t)> type_name,
                  ReplacedFile file);

  void record();
  void stop_thread();
  void collect(bool all);
  std::string profile() const;
  void write();

  const RecordingOptions options_;
  Runtime& runtime_;
  const Datapath& datapath_;
  const uint32_t types_;
  const std::function<std::string(uint32_t)> type_name_;
  std::mutex mutex_;  // guards all below, but for thread_
  ReplacedFile file_;
  ArrivalRecorder arrivals_;
  uint64_t most_flows_ = 0;
  std::string complete_;   // the profile of the whole time that was to be recorded
  Status last_ = Done{};   // the result of the last write
  uint64_t failures_ = 0;  // to write, in all
  bool written_ = false;   // once at least
  bool settled_ = false;   // complete_ is written
  std::condition_variable wake_;
  bool stopping_ = false;
  std::thread thread_;
};

// The measurements of the requests of one type.
struct ServedType {
  std::string name;
  Histogram service, latency;
};

// The types of a profile: those with served requests, at most Mix::kMaxRecordedTypes; if there are
// more, the rarest become one type "(others)".
std::vector<TrafficProfile::Type> profile_types(std::vector<ServedType> served);

}  // namespace rubato
