// SPDX-License-Identifier: Apache-2.0
//
// Tracer: the trace of an executor or a server for Perfetto, if its options name a file. Any
// thread, but for open() and close().
#pragma once

#include <rubato/rubato.h>

#include <memory>

#include "base/result.h"
#include "metrics/open_metrics.h"
#include "runtime/exposition.h"
#include "runtime/runtime.h"
#include "runtime/trace_recorder.h"

namespace rubato::api {

class Tracer {
 public:
  // `owner` is what has the option trace_file: "the executor".
  explicit Tracer(const char* owner) : owner_(owner) {}

  // Once, of a runtime that records traces and outlives this. Nothing is traced yet.
  void open(TraceOptions options, Runtime& runtime, const ExposedTypes& types);
  bool is_open() const { return recorder_ != nullptr; }
  // Begins or ends a trace. Fails with one line if there is no file, it cannot be written or the
  // caller is a worker; at an end also if the last trace is not whole.
  Status trace(bool wanted);
  // The same, as the functions of C tell it.
  int trace(int wanted, rubato_error* error);
  // Once the workers have ended: ends the trace, and logs if it is not whole.
  void close();
  // Appends its families.
  void expose(OpenMetrics& out) const;

 private:
  const char* const owner_;
  std::unique_ptr<TraceRecorder> recorder_;  // null = there is no file for it
};

}  // namespace rubato::api
