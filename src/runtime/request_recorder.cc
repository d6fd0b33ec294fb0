// SPDX-License-Identifier: Apache-2.0
#include "runtime/request_recorder.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/log.h"
#include "mechanism/clock/clock.h"

namespace rubato {
namespace {

constexpr Nanos kWritePeriod = Nanos::seconds(1);

}  // namespace

RequestRecorder::RequestRecorder(RequestRecordingOptions options, RequestFeed& feed,
                                 uint32_t types,
                                 const std::function<std::string(uint32_t)>& type_name)
    : options_(std::move(options)),
      head_(TraceEncoder::begin(names_of(types, type_name))),
      types_(types),
      requests_(feed) {}

void RequestRecorder::expose(OpenMetrics& out) const {
  const Counts now = counts();
  out.family("rubato_recorded_requests", "counter", "Requests written to the file of --record");
  out.counter(now.recorded);
  out.family("rubato_unrecorded_requests", "counter",
             "Requests that the recorder left out because its memory or file was full");
  out.counter(now.dropped);
}

Status RequestRecorder::begin() {
  Result<int> made = make_file_anew(options_.file);
  if (!made.ok()) return Error{made.error()};
  fd_ = *made;
  failure_ = Done{};
  bytes_ = 0;
  write(head_);
  if (fd_ < 0) return failure_;
  start_ = wrote_at_ = now();
  dropped_noted_ = requests_.dropped();
  requests_.want(true);
  return Done{};
}

Status RequestRecorder::end() {
  requests_.want(false);
  collect_requests(true);
  if (fd_ >= 0 && ::close(std::exchange(fd_, -1)) != 0) {
    failure_ = Error{"cannot write '" + options_.file + "': " + std::strerror(errno)};
  }
  return failure_;
}

bool RequestRecorder::collect(Status& error) {
  collect_requests(false);
  if (fd_ < 0) error = failure_;
  return fd_ >= 0;
}

// Requests that had arrived before the recording began are not of it. A task has no connection: it
// counts as one of its own, or a simulated NIC would steer all of them to one worker.
void RequestRecorder::take_records() {
  requests_.take(batch_);
  for (const RequestRecord& record : batch_) {
    if (record.arrived < start_ || record.type >= types_) continue;
    encoder_.add({.at = record.arrived - start_,
                  .service = record.refused ? Nanos() : std::max(record.service, Nanos(1)),
                  .type = record.type,
                  .flow = record.flow != 0 ? record.flow : ++without_flow_,
                  .latency = std::max(record.latency, Nanos()),
                  .refused = record.refused});
  }
}

void RequestRecorder::collect_requests(bool all) {
  if (fd_ < 0) return;
  take_records();
  const Instant at = now();
  const size_t waiting = encoder_.waiting();
  if (!all && waiting < TraceEncoder::kChunkRequests && at - wrote_at_ < kWritePeriod) return;
  wrote_at_ = at;
  const uint64_t dropped = requests_.dropped();
  if (dropped > dropped_noted_) write(TraceEncoder::dropped(dropped - dropped_noted_));
  dropped_noted_ = dropped;
  if (waiting == 0) return;
  write(encoder_.take());
  (fd_ >= 0 ? recorded_ : unwritten_) += waiting;
}

void RequestRecorder::write(const std::string& bytes) {
  if (fd_ < 0) return;
  if (bytes_ + bytes.size() > options_.most_bytes) {
    return give_up("it has the " + std::to_string(options_.most_bytes >> 20) +
                   " MiB that it may have");
  }
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t more = ::write(fd_, bytes.data() + done, bytes.size() - done);
    if (more < 0 && errno == EINTR) continue;
    if (more <= 0) {
      const std::string why = std::strerror(more < 0 ? errno : ENOSPC);
      failure_ = Error{"cannot write '" + options_.file + "': " + why};
      return give_up(why);
    }
    done += static_cast<size_t>(more);
  }
  bytes_ += bytes.size();
}

void RequestRecorder::give_up(const std::string& why) {
  requests_.want(false);
  ::close(std::exchange(fd_, -1));
  log_line(LogLevel::kError, LogEvent::kProfile,
           "the recording into '" + options_.file + "' has ended: " + why);
}

Status RequestRecorder::finish() {
  const Status whole = end_whole();
  const Counts all = counts();
  log_line(LogLevel::kInfo, LogEvent::kProfile, "requests recorded",
           {{"file", options_.file},
            {"recorded", static_cast<int64_t>(all.recorded)},
            {"left_out", static_cast<int64_t>(all.dropped)}});
  return whole;
}

}  // namespace rubato
