// SPDX-License-Identifier: Apache-2.0
#include "process/kv_services.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "base/name_list.h"
#include "base/option_text.h"
#include "mechanism/clock/clock.h"
#include "policy/aliases.h"
#include "process/serving.h"

namespace rubato::kv {
namespace {

constexpr auto kExpiryPeriod = std::chrono::milliseconds(100);
constexpr const char* kRecording = "recording";
constexpr uint32_t kExpiryBudget = 1000;  // keys looked at per call

std::string with_dashes(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

// Reads the option of that name ("target-delay"). One with settings of its own gets all anew.
Status read(std::string_view name, std::string_view value, SchedulerOptions& options) {
  Status read = Error{"no such option"};
  SchedulerOptions::visit(options, [&]<class T>(const OptionInfo& info, T& field) {
    if (with_dashes(info.name) != name) return;
    if constexpr (std::is_same_v<T, OptionSettings>) {
      field.clear();
      read = Done{};
      for (const std::string& setting : split(std::string(value), ' ')) {
        if (read.ok() && !setting.empty()) read = read_option(info, setting, field);
      }
    } else {
      read = read_option(info, value, field);
    }
  });
  return read;
}

}  // namespace

KvServices::KvServices(Runtime& runtime, TcpDatapath& tcp, Datapath& all,
                       KvApplication& application,
               const BestEffort* best_effort, const rpc::AdmissionController* admission,
               RequestRecorder* recorder)
    : runtime_(runtime),
      tcp_(tcp),
      application_(application),
      best_effort_(best_effort),
      admission_(admission),
      recorder_(recorder),
      marks_(KvApplication::request_types()) {
  application_.connect({.datapath = &all,
                        .latency = this,
                        .control = this,
                        .port = tcp_.port(),
                        .clock = nullptr});
  expiry_ = std::thread([this] { expire_keys(); });
}

KvServices::~KvServices() {
  stopping_.store(true, std::memory_order_relaxed);
  expiry_.join();
}

void KvServices::expire_keys() {
  while (!stopping_.load(std::memory_order_relaxed)) {
    while (application_.expire_some(kExpiryBudget) && !stopping_.load(std::memory_order_relaxed)) {
      std::this_thread::yield();
    }
    std::this_thread::sleep_for(kExpiryPeriod);
  }
}

Histogram KvServices::total_time(uint32_t type) {
  const std::scoped_lock lock(mutex_);
  return runtime_.latency(type).since(marks_[type].latency);
}

Nanos KvServices::service_time(uint32_t type) {
  const std::scoped_lock lock(mutex_);
  return Nanos(static_cast<int64_t>(runtime_.service(type).sum_ns() - marks_[type].service_ns));
}

void KvServices::reset() {
  const std::scoped_lock lock(mutex_);
  for (uint32_t type = 0; type < marks_.size(); ++type) {
    marks_[type] = {runtime_.latency(type), runtime_.service(type).sum_ns()};
  }
}

ServerControl::Lines KvServices::scheduler_options() {
  Lines lines;
  for (const OptionDescription& option :
       describe<SchedulerOptions>(runtime_.scheduler_options())) {
    if ((option.hosts & kServe) == 0) continue;
    lines.emplace_back(with_dashes(option.name), option.default_value);
  }
  if (recorder_ != nullptr) lines.emplace_back(kRecording, recorder_->recording() ? "yes" : "no");
  return lines;
}

// The settings of a policy, or of an allocator of cores, do not outlive it.
Status KvServices::set_scheduler_options(const Lines& wanted) {
  SchedulerOptions options = runtime_.scheduler_options();
  const std::string policy = options.policy;
  const std::string cores = options.cores;
  for (const auto& [name, value] : wanted) {
    if (name == "policy" && policy_called(value) != policy) options.policy_settings.clear();
    if (name == "cores" && value != cores) options.cores_settings.clear();
  }
  std::optional<bool> records;
  for (const auto& [name, value] : wanted) {
    if (name == kRecording && recorder_ != nullptr) {
      if (value != "yes" && value != "no") return Error{name + ": takes yes or no"};
      records = value == "yes";
      continue;
    }
    const Status is_right = read(name, value, options);
    if (!is_right.ok()) return Error{name + ": " + is_right.error()};
  }
  if (!records) return runtime_.change(options);
  if (wanted.size() > 1) return Error{std::string(kRecording) + ": is set alone"};
  const Status recorded = recorder_->record(*records);
  return recorded.ok() ? recorded : Error{std::string(kRecording) + ": " + recorded.error()};
}

ServerControl::Lines KvServices::scheduler_info() {
  Lines lines =
      scheduler_lines(runtime_, {KvApplication::type_name, KvApplication::request_types()});
  if (best_effort_ != nullptr) {
    for (auto& line : best_effort_->lines()) lines.push_back(std::move(line));
  }
  return lines;
}

ServerControl::Lines KvServices::overload_info() {
  Lines lines = overload_lines(runtime_);
  if (admission_ == nullptr) return lines;
  const auto show = [&](const char* key, uint64_t value) {
    lines.emplace_back(key, std::to_string(value));
  };
  const auto credits = [&](const char* key, int64_t value) {
    show(key, static_cast<uint64_t>(std::max<int64_t>(value, 0)));
  };
  const rpc::AdmissionController::Counts counts = admission_->counts();
  const auto refused = [&](rpc::Reason reason) {
    return counts.refused[static_cast<size_t>(reason)];
  };
  credits("rpc_sessions", admission_->pool().sessions());
  credits("rpc_drained_sessions", admission_->pool().drained());
  credits("rpc_credits_total", admission_->pool().total());
  credits("rpc_credits_issued", admission_->pool().issued());
  credits("rpc_queue_delay_us", admission_->delay(now()).count() / 1000);
  show("rpc_served", counts.served);
  show("rpc_refused_overloaded", refused(rpc::Reason::kOverloaded));
  show("rpc_refused_queue_full", refused(rpc::Reason::kQueueFull));
  show("rpc_refused_over_credit", refused(rpc::Reason::kOverCredit));
  show("rpc_faults", counts.faults);
  return lines;
}

}  // namespace rubato::kv
