// SPDX-License-Identifier: Apache-2.0
#include "api/tracer.h"

#include <exception>
#include <string>
#include <utility>

#include "api/error.h"
#include "base/log.h"
#include "mechanism/cpu/this_worker.h"

namespace rubato::api {

void Tracer::open(TraceOptions options, Runtime& runtime, const ExposedTypes& types) {
  recorder_ = std::make_unique<TraceRecorder>(std::move(options), runtime.trace_rings(),
                                              types.count, types.name);
}

Status Tracer::trace(bool wanted) {
  if (recorder_ == nullptr) {
    return Error{std::string("trace_file: ") + owner_ + " was created without one"};
  }
  // It waits for the disk, and for a lock with which a fiber could leave.
  if (on_worker()) return Error{"trace: not on a worker"};
  return wanted ? recorder_->record(true) : recorder_->end_whole();
}

int Tracer::trace(int wanted, rubato_error* error) {
  try {
    const Status done = trace(wanted != 0);
    if (done.ok()) return RUBATO_OK;
    say(error, done.error());
  } catch (const std::exception& trouble) {
    say(error, trouble.what());
  }
  return RUBATO_ERROR;
}

void Tracer::close() {
  if (recorder_ == nullptr) return;
  if (Status whole = recorder_->record(false); !whole.ok()) {
    log_line(LogLevel::kError, LogEvent::kProfile, "the trace is not whole: " + whole.error());
  }
}

void Tracer::expose(OpenMetrics& out) const {
  if (recorder_ != nullptr) recorder_->expose(out);
}

}  // namespace rubato::api
