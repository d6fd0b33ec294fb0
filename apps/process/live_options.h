// SPDX-License-Identifier: Apache-2.0
//
// LiveOptions: the options of a running server that can be read and set by name: those of its
// scheduler, and the keys of its recorders ("recording", "tracing": yes or no). CONFIG SET and the
// metrics port set by it. Any thread but a worker: a change of the policy waits for the longest
// request. Borrows its arguments.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "runtime/recording.h"
#include "runtime/runtime.h"

namespace rubato {

// What records while the server runs.
struct LiveRecorder {
  const char* option;  // that names the file: "record"
  const char* key;     // that starts and ends it while the server runs: "recording"
  Recording* recording;
};

class LiveOptions {
 public:
  using Lines = std::vector<std::pair<std::string, std::string>>;  // name, value

  LiveOptions(Runtime& runtime, std::vector<LiveRecorder> recorders)
      : runtime_(runtime), recorders_(std::move(recorders)) {}

  Lines all() const;
  // All of them at once. Fails with one line that names the option; then none is changed.
  Status set(const Lines& wanted) const;

 private:
  Recording* recorder_of(std::string_view key) const;

  Runtime& runtime_;
  const std::vector<LiveRecorder> recorders_;
};

}  // namespace rubato
