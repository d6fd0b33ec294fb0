// SPDX-License-Identifier: Apache-2.0
#include "api/recorders.h"

#include <utility>

#include "base/log.h"
#include "mechanism/cpu/this_worker.h"

namespace rubato::api {
namespace {

Status of_option(const char* option, const Status& status) {
  return status.ok() ? status : Status(Error{std::string(option) + ": " + status.error()});
}

void log_lost(const char* what, const Status& whole) {
  if (whole.ok()) return;
  log_line(LogLevel::kError, LogEvent::kProfile,
           std::string(what) + " is not whole: " + whole.error());
}

}  // namespace

void RecorderOptions::ask(RuntimeOptions& runtime) const {
  runtime.record_traces = !trace.file.empty();
  runtime.record_requests = !requests.file.empty();
  runtime.record_arrivals = !profile.file.empty();
}

void Recorders::open(const RecorderOptions& options, Runtime& runtime, const Datapath& datapath,
                     const ExposedTypes& types) {
  if (!options.trace.file.empty()) {
    trace_ = std::make_unique<TraceRecorder>(options.trace, runtime.trace_rings(), types.count,
                                             types.name);
  }
  if (!options.requests.file.empty()) {
    feed_.emplace(runtime.request_rings());
    requests_ = std::make_unique<RequestRecorder>(options.requests, *feed_, types.count,
                                                  types.name);
  }
  if (options.profile.file.empty()) return;
  start_profile_ = [of = options.profile, &runtime, &datapath, types] {
    return TrafficRecorder::start(of, runtime, datapath, types.count, types.name);
  };
}

// The profile first, which makes no file yet.
Status Recorders::begin() {
  if (Status begun = of_option("profile_file", begin_profile()); !begun.ok()) return begun;
  if (requests_ != nullptr) {
    if (Status begun = of_option("record_file", requests_->record(true)); !begun.ok()) return begun;
  }
  return trace_ == nullptr ? Done{} : of_option("trace_file", trace_->record(true));
}

Status Recorders::begin_profile() {
  if (!start_profile_) return Done{};
  auto started = start_profile_();
  if (!started.ok()) return Error{started.error()};
  const std::scoped_lock lock(mutex_);
  profile_ = std::move(*started);
  return Done{};
}

// It waits for the disk, and for a lock with which a fiber could leave.
Status Recorders::check(const char* option, bool has_file) const {
  if (!has_file) return Error{std::string(option) + ": " + owner_ + " was created without one"};
  if (on_worker()) return Error{std::string(option) + ": not on a worker"};
  return Done{};
}

Status Recorders::trace(bool wanted) { return turn("trace_file", trace_.get(), wanted); }

Status Recorders::record(bool wanted) { return turn("record_file", requests_.get(), wanted); }

Status Recorders::turn(const char* option, Recording* recording, bool wanted) const {
  const Status good = check(option, recording != nullptr);
  if (!good.ok()) return good;
  return of_option(option, wanted ? recording->record(true) : recording->end_whole());
}

Status Recorders::write_profile() {
  const Status good = check("profile_file", start_profile_ != nullptr);
  if (!good.ok()) return good;
  const std::scoped_lock lock(mutex_);
  if (profile_ == nullptr) return Error{"profile_file: nothing has run yet"};
  return of_option("profile_file", profile_->write_now());
}

void Recorders::close() {
  if (trace_ != nullptr) log_lost("the trace", trace_->record(false));
  if (requests_ != nullptr) log_lost("the recording", requests_->record(false));
  const std::scoped_lock lock(mutex_);
  if (profile_ != nullptr) log_lost("the profile", profile_->finish());
}

void Recorders::expose(OpenMetrics& out) const {
  if (trace_ != nullptr) trace_->expose(out);
  if (requests_ != nullptr) requests_->expose(out);
}

}  // namespace rubato::api
