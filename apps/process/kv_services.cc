// SPDX-License-Identifier: Apache-2.0
#include "process/kv_services.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "mechanism/clock/clock.h"
#include "runtime/exposition.h"

namespace rubato::kv {
namespace {

constexpr auto kExpiryPeriod = std::chrono::milliseconds(100);
constexpr uint32_t kExpiryBudget = 1000;  // keys looked at per call

}  // namespace

KvServices::KvServices(Runtime& runtime, TcpDatapath& tcp, rpc::UdpDatapath* rpc_udp,
                       Datapath& all, KvApplication& application, const BestEffort* best_effort,
                       const rpc::AdmissionController* admission,
                       std::vector<LiveRecorder> recorders)
    : runtime_(runtime),
      tcp_(tcp),
      rpc_udp_(rpc_udp),
      application_(application),
      best_effort_(best_effort),
      admission_(admission),
      options_(runtime, std::move(recorders)),
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

void KvServices::set_max_flows(uint32_t flows) {
  tcp_.set_max_flows(flows);
  if (rpc_udp_ != nullptr) rpc_udp_->set_max_flows(flows);
}

void KvServices::set_idle_timeout(Nanos limit) {
  tcp_.set_idle_timeout(limit);
  if (rpc_udp_ != nullptr) rpc_udp_->set_idle_timeout(limit);
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
