// SPDX-License-Identifier: Apache-2.0
//
// Recorders: what an executor or a server of the library writes of its tasks and requests into the
// files that its options name: a trace for Perfetto, every request for `sim --workload trace:FILE`,
// a profile for `sim --workload profile:FILE`. Any thread, but for open(), begin() and close().
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/result.h"
#include "metrics/open_metrics.h"
#include "runtime/exposition.h"
#include "runtime/options.h"
#include "runtime/request_recorder.h"
#include "runtime/runtime.h"
#include "runtime/trace_recorder.h"
#include "runtime/traffic_recorder.h"

namespace rubato::api {

// A file without a name is not written.
struct RecorderOptions {
  TraceOptions trace;
  RequestRecordingOptions requests;
  RecordingOptions profile;

  // Has the runtime keep what these files take.
  void ask(RuntimeOptions& runtime) const;
};

class Recorders {
 public:
  // `owner` is what has the options: "the executor".
  explicit Recorders(const char* owner) : owner_(owner) {}

  // Once, of a runtime that was asked to record and outlives this, as the datapath does. Nothing is
  // recorded yet.
  void open(const RecorderOptions& options, Runtime& runtime, const Datapath& datapath,
            const ExposedTypes& types);
  bool any() const { return trace_ != nullptr || requests_ != nullptr || start_profile_; }
  // Begins with all that has a file. Fails with one line that names the option.
  Status begin();

  // Begin or end a trace or a recording. Fail with one line if there is no file, it cannot be
  // written or the caller is a worker; at an end also if what was recorded last is not whole.
  Status trace(bool wanted);
  Status record(bool wanted);
  // Writes the profile as it is now. Fails in the same cases, and if too few requests came.
  Status write_profile();

  // Once the workers have ended: ends all, and logs what is not whole.
  void close();
  // Appends their families.
  void expose(OpenMetrics& out) const;

 private:
  // Whether the caller may have something from the file of `option`.
  Status check(const char* option, bool has_file) const;
  // Begins or ends it; null = there is no file for it.
  Status turn(const char* option, Recording* recording, bool wanted) const;
  Status begin_profile();

  const char* const owner_;
  std::unique_ptr<TraceRecorder> trace_;       // null = there is no file for it
  std::optional<RequestFeed> feed_;
  std::unique_ptr<RequestRecorder> requests_;  // likewise
  std::function<Result<std::unique_ptr<TrafficRecorder>>()> start_profile_;  // likewise
  std::mutex mutex_;                           // guards profile_
  std::unique_ptr<TrafficRecorder> profile_;   // null = it has not begun
};

}  // namespace rubato::api
