// SPDX-License-Identifier: Apache-2.0
#include "runtime/traffic_recorder.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/log.h"
#include "mechanism/clock/clock.h"
#include "runtime/worker_stats.h"

namespace rubato {
namespace {

constexpr std::chrono::milliseconds kCollectPeriod{200};
constexpr Nanos kWritePeriod = Nanos::seconds(10);
constexpr size_t kTriedBytes = 64 * 1024;  // about the size of a profile

TrafficProfile::Latency latency_of(const Histogram& h) {
  return {h.mean_ns() / 1e3, h.percentile(50).micros(), h.percentile(99).micros(),
          h.percentile(99.9).micros(), h.max().micros()};
}

// The least and the greatest value narrow the first and the last bucket.
std::vector<ServiceBucket> buckets_of(const Histogram& h) {
  std::vector<ServiceBucket> buckets;
  h.for_each_bucket([&](Nanos low, Nanos high, uint64_t count) {
    const Nanos beyond = std::min(high, h.max() + Nanos(1));
    // A snapshot may have counted a value that its extremes do not include yet.
    const bool known = std::max(low, h.min()) < beyond;
    buckets.push_back({known ? std::max(low, h.min()) : low, known ? beyond : high, count});
  });
  return buckets;
}

void fold_rare(std::vector<ServedType>& served) {
  if (served.size() <= Mix::kMaxRecordedTypes) return;
  std::sort(served.begin(), served.end(), [](const ServedType& a, const ServedType& b) {
    const uint64_t more = a.service.count(), less = b.service.count();
    return more != less ? more > less : a.name < b.name;
  });
  ServedType others{"(others)", {}, {}};
  for (size_t i = Mix::kMaxRecordedTypes - 1; i < served.size(); ++i) {
    others.service.merge(served[i].service);
    others.latency.merge(served[i].latency);
  }
  served.resize(Mix::kMaxRecordedTypes - 1);
  served.push_back(std::move(others));
}

}  // namespace

std::vector<TrafficProfile::Type> profile_types(std::vector<ServedType> served) {
  std::erase_if(served, [](const ServedType& type) { return type.service.empty(); });
  fold_rare(served);
  std::vector<TrafficProfile::Type> types;
  for (const ServedType& type : served) {
    types.push_back({type.name, type.service.count(), buckets_of(type.service),
                     latency_of(type.latency)});
  }
  return types;
}

Result<std::unique_ptr<TrafficRecorder>> TrafficRecorder::start(
    const RecordingOptions& options, Runtime& runtime, const Datapath& datapath, uint32_t types,
    const std::function<std::string(uint32_t)>& type_name) {
  Result<ReplacedFile> file = ReplacedFile::open(options.file, kTriedBytes);
  if (!file) return Error{file.error()};
  return std::unique_ptr<TrafficRecorder>(
      new TrafficRecorder(options, runtime, datapath, types, type_name, std::move(*file)));
}

TrafficRecorder::TrafficRecorder(RecordingOptions options, Runtime& runtime,
                                 const Datapath& datapath, uint32_t types,
                                 std::function<std::string(uint32_t)> type_name, ReplacedFile file)
    : options_(std::move(options)),
      runtime_(runtime),
      datapath_(datapath),
      types_(std::min(types, kRequestTypes)),
      type_name_(std::move(type_name)),
      file_(std::move(file)),
      arrivals_(runtime.arrivals(), now(), options_.length) {
  thread_ = std::thread([this] { record(); });
}

TrafficRecorder::~TrafficRecorder() { stop_thread(); }

void TrafficRecorder::stop_thread() {
  if (!thread_.joinable()) return;
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void TrafficRecorder::record() {
  Instant write_at = now() + kWritePeriod;
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, kCollectPeriod, [this] { return stopping_; })) {
    const bool was_complete = !complete_.empty();
    if (!was_complete) collect(false);
    const bool is_complete = !complete_.empty();
    if (is_complete != was_complete || now() >= write_at) {
      write();
      write_at = now() + kWritePeriod;
    }
  }
}

void TrafficRecorder::collect(bool all) {
  arrivals_.collect(now(), all);
  most_flows_ = std::max(most_flows_, datapath_.stats().flows_open);
  if (arrivals_.complete()) complete_ = profile();
}

// Empty as long as there is no rate or no request was served.
std::string TrafficRecorder::profile() const {
  TrafficProfile profile;
  std::vector<ServedType> served;
  for (uint32_t type = 0; type < types_; ++type) {
    if (options_.is_control && options_.is_control(type)) continue;
    served.push_back({type_name_(type), runtime_.service(type), runtime_.latency(type)});
  }
  profile.types = profile_types(std::move(served));
  profile.arrivals = arrivals_.arrivals();
  if (profile.types.empty() || profile.arrivals.rate_rps <= 0) return "";
  const RuntimeStats stats = runtime_.stats();
  profile.version = options_.version;
  profile.policy = runtime_.options().policy;
  profile.workers = runtime_.options().workers;
  profile.span_s = arrivals_.span_s();
  profile.utilization = static_cast<double>(stats.busy_ns) / 1e9 / profile.span_s /
                        static_cast<double>(profile.workers);
  profile.refused = stats.refused;
  for (const ArrivalSlots* worker : runtime_.arrivals()) profile.control += worker->control();
  profile.flows = static_cast<uint32_t>(std::min<uint64_t>(most_flows_, FlowSpec::kMost));
  profile.late = arrivals_.late();
  profile.gaps = arrivals_.gaps();
  return to_json(profile);
}

void TrafficRecorder::write() {
  if (settled_) return;
  const std::string text = complete_.empty() ? profile() : complete_;
  if (text.empty()) return;
  last_ = file_.write(text);
  written_ = written_ || last_.ok();
  settled_ = last_.ok() && !complete_.empty();
  if (!last_.ok() && failures_++ == 0) {
    log_line(LogLevel::kError, LogEvent::kProfile,
             last_.error() + "; the server goes on and tries again");
  }
}

Status TrafficRecorder::write_now() {
  const std::scoped_lock lock(mutex_);
  if (complete_.empty()) collect(!runtime_.serving());
  write();
  if (!last_.ok()) return Error{last_.error()};
  if (!written_) return Error{"fewer than two requests came"};
  return Done{};
}

Status TrafficRecorder::finish() {
  stop_thread();
  const std::scoped_lock lock(mutex_);
  if (complete_.empty()) collect(true);
  write();
  if (!last_.ok()) {
    return Error{last_.error() + " (attempts: " + std::to_string(failures_) + ")"};
  }
  if (!written_) {
    log_line(LogLevel::kWarning, LogEvent::kProfile,
             "fewer than two requests came, '" + options_.file + "' is not written");
  } else if (failures_ > 0) {
    log_line(LogLevel::kWarning, LogEvent::kProfile,
             "'" + options_.file + "' is written; " + std::to_string(failures_) +
                 " attempts before failed");
  }
  return Done{};
}

}  // namespace rubato
