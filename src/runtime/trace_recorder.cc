// SPDX-License-Identifier: Apache-2.0
#include "runtime/trace_recorder.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "mechanism/clock/clock.h"

namespace rubato {
namespace {

constexpr size_t kBatch = 1024;
// Requests whose last slice found no room in a ring stay in the table; so they begin anew.
constexpr size_t kMostNumbers = 1u << 20;

}  // namespace

TraceRecorder::TraceRecorder(TraceOptions options, std::vector<TraceRing*> rings, uint32_t types,
                             const std::function<std::string(uint32_t)>& type_name)
    : options_(std::move(options)),
      rings_(std::move(rings)),
      types_(names_of(types, type_name)),
      batch_(kBatch) {}

void TraceRecorder::publish_counts() {
  Counts counts = complete_;
  if (trace_ != nullptr) {
    counts.written += trace_->written();
    counts.dropped += trace_->dropped() + dropped_by(rings_) - dropped_before_;
  }
  written_.store(counts.written, std::memory_order_relaxed);
  dropped_.store(counts.dropped, std::memory_order_relaxed);
}

void TraceRecorder::expose(OpenMetrics& out) const {
  const Counts now = counts();
  out.family("rubato_trace_events", "counter", "Events written to the file of --trace");
  out.counter(now.written);
  out.family("rubato_trace_events_left_out", "counter",
             "Events left out of the trace because its memory or file was full, or they came late");
  out.counter(now.dropped);
}

void TraceRecorder::want(uint32_t trace) {
  for (TraceRing* ring : rings_) ring->want(trace);
}

Status TraceRecorder::begin() {
  Result<int> made = make_file_anew(options_.file);
  if (!made.ok()) return Error{made.error()};
  ::close(*made);  // the trace opens it by its name
  auto opened = Trace::open(options_.file, {.events = options_.events, .from = {}},
                            static_cast<uint32_t>(rings_.size()), types_);
  if (!opened.ok()) return Error{opened.error()};
  for (TraceRing* ring : rings_) {
    while (ring->take(batch_) == kBatch) continue;  // of a trace before
  }
  trace_ = std::move(*opened);
  numbers_.clear();
  ended_.clear();
  ended_before_.clear();
  requests_ = 0;
  newest_.clear();
  depths_.clear();
  dropped_before_ = dropped_by(rings_);
  looked_ = start_ = now();
  want(++number_);
  return Done{};
}

Status TraceRecorder::end() {
  want(0);
  take_records();
  return complete();
}

Status TraceRecorder::complete() {
  want(0);
  write_depths(Instant::never());
  trace_->drop(dropped_by(rings_) - dropped_before_);
  const Status finished = trace_->finish();
  complete_.written += trace_->written();
  complete_.dropped += trace_->dropped();
  trace_ = nullptr;
  publish_counts();
  return finished;
}

bool TraceRecorder::collect(Status& error) {
  take_records();
  publish_counts();
  if (!trace_->full()) return true;
  error = complete();
  log_line(error.ok() ? LogLevel::kInfo : LogLevel::kError, LogEvent::kProfile,
           "the trace in '" + options_.file + "' has ended: " +
               (error.ok() ? "it has the " + std::to_string(options_.events) +
                                 " events that it may have"
                           : error.error()));
  return false;
}

// A slice that a worker has put before another one, elsewhere, of the same request may be seen
// later, in the next round: so the number of one that has ended is kept for that long.
void TraceRecorder::take_records() {
  const Instant looks = now();
  for (uint32_t worker = 0; worker < rings_.size(); ++worker) {
    for (uint32_t taken = kBatch; taken == kBatch;) {
      taken = rings_[worker]->take(batch_);
      for (uint32_t i = 0; i < taken; ++i) {
        if (batch_[i].start >= start_) write(worker, batch_[i]);
      }
    }
  }
  write_depths(std::exchange(looked_, looks));
  for (const Key& key : ended_before_) numbers_.erase(key);
  ended_before_ = std::exchange(ended_, {});
  if (numbers_.size() > kMostNumbers) numbers_.clear();
}

// One that comes later still, from a worker that got no CPU between its look and its note, is left
// out: what is written after it stays true.
void TraceRecorder::write_depths(Instant until) {
  std::sort(depths_.begin(), depths_.end(),
            [](const TraceRecord& a, const TraceRecord& b) { return a.start < b.start; });
  const auto end = std::find_if(depths_.begin(), depths_.end(), [until](const TraceRecord& record) {
    return record.start >= until;
  });
  for (auto record = depths_.begin(); record != end; ++record) {
    const auto [found, is_first] = newest_.try_emplace({record->name, record->type}, *record);
    if (record->start < found->second.start) {
      trace_->drop(1);
      continue;
    }
    const uint32_t before = std::exchange(found->second, *record).depth;
    if (!is_first && record->depth == before) continue;
    trace_->depth(record->name, record->type, since_start(record->start), record->depth);
  }
  depths_.erase(depths_.begin(), end);
}

void TraceRecorder::write(uint32_t worker, const TraceRecord& record) {
  const Instant start = since_start(record.start);
  switch (record.what) {
    case TraceRecord::What::kSlice: {
      const Instant arrived = std::max(since_start(record.arrived), Instant());
      trace_->slice(worker, {number_of(record), record.type, arrived, record.avoided}, start,
                    since_start(record.end), record.how);
      return;
    }
    case TraceRecord::What::kMark: return trace_->mark(worker, record.name, start);
    case TraceRecord::What::kDepth: return depths_.push_back(record);
  }
}

uint64_t TraceRecorder::number_of(const TraceRecord& slice) {
  const Key key{slice.request, slice.started.ns()};
  const auto [found, is_new] = numbers_.try_emplace(key, requests_);
  if (is_new) ++requests_;
  if (slice.how == Trace::End::kFinished) ended_.push_back(key);
  return found->second;
}

Status TraceRecorder::finish() {
  const Status written = end_whole();
  const Counts all = counts();
  log_line(written.ok() ? LogLevel::kInfo : LogLevel::kError, LogEvent::kProfile,
           written.ok() ? "trace written" : "the trace is not whole: " + written.error(),
           {{"file", options_.file},
            {"events", static_cast<int64_t>(all.written)},
            {"left_out", static_cast<int64_t>(all.dropped)}});
  return written;
}

}  // namespace rubato
