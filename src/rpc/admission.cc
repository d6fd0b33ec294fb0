// SPDX-License-Identifier: Apache-2.0
#include "rpc/admission.h"

#include <algorithm>
#include <array>
#include <chrono>

#include "datapath/datapath.h"
#include "mechanism/clock/clock.h"
#include "mechanism/cpu/this_worker.h"

namespace rubato::rpc {

AdmissionController::AdmissionController(const AdmissionOptions& options)
    : options_(options), admission_(options) {}

AdmissionController::~AdmissionController() { detach(); }

uint32_t AdmissionController::worker() const {
  const uint32_t here = this_worker();
  return here < options_.workers ? here : 0;
}

void AdmissionController::attach(Datapath& datapath) {
  datapath_.store(&datapath, std::memory_order_release);
  thread_ = std::thread([this] { run(); });
}

void AdmissionController::detach() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(thread_mutex_);
    stopping_ = true;
  }
  thread_wakes_.notify_all();
  thread_.join();
  datapath_.store(nullptr, std::memory_order_release);
}

void AdmissionController::run() {
  std::unique_lock lock(thread_mutex_);
  while (!stopping_) {
    lock.unlock();
    const Nanos pause = tick(now()) ? kTick : kQuietTick;
    lock.lock();
    thread_wakes_.wait_for(lock, std::chrono::nanoseconds(pause.count()),
                           [this] { return stopping_; });
  }
}

bool AdmissionController::tick(Instant now) {
  std::array<uint64_t, kOffersPerTick> flows;
  const uint32_t offered = admission_.update(now, flows);
  notify({flows.data(), offered});
  return pool().drained() > 0 || pool().pending() > 0;
}

void AdmissionController::update_if_due(Instant now) {
  if (!admission_.is_due(now)) return;
  std::array<uint64_t, kOffersPerRequest> flows;
  const uint32_t offered = admission_.try_update(now, flows);
  notify({flows.data(), offered});
}

// A flow that closes meanwhile is not found.
void AdmissionController::notify(std::span<const uint64_t> flows) {
  if (flows.empty()) return;
  offered_.fetch_add(flows.size(), std::memory_order_relaxed);
  Datapath* const datapath = datapath_.load(std::memory_order_acquire);
  if (datapath == nullptr) return;
  const PreemptDisableGuard no_preemption;
  for (const uint64_t flow : flows) datapath->request_push(flow);
}

int64_t AdmissionController::open(AdmittedSession& session, uint32_t demand, Instant now) {
  if (!may_open(session.address_)) return -1;
  return admission_.open(worker(), session, demand, now);
}

bool AdmissionController::may_open(const std::string& address) {
  const std::lock_guard lock(sessions_mutex_);
  if (open_sessions_ >= options_.max_sessions) {
    ++refused_;
    return false;
  }
  if (options_.sessions_per_address > 0) {
    uint32_t& sessions = of_address_[address];
    if (sessions >= options_.sessions_per_address) {
      ++refused_of_address_;
      return false;
    }
    ++sessions;
  }
  ++open_sessions_;
  ++opened_;
  return true;
}

void AdmissionController::close(AdmittedSession& session) {
  if (!session.open) return;
  admission_.close(worker(), session);
  const std::lock_guard lock(sessions_mutex_);
  --open_sessions_;
  const auto at = of_address_.find(session.address_);
  if (at != of_address_.end() && --at->second == 0) of_address_.erase(at);
}

void AdmissionController::note_fault() {
  const std::lock_guard lock(sessions_mutex_);
  ++faults_;
}

overload::Arrival AdmissionController::arrived(AdmittedSession& session, QueuedRequest& request,
                                               uint32_t demand, Instant since, Instant now) {
  update_if_due(now);
  return admission_.arrived(worker(), session, request, demand, since, now);
}

void AdmissionController::classify(QueuedRequest& request, bool is_long) {
  admission_.classify(worker(), request, is_long);
}

bool AdmissionController::started(QueuedRequest& request, Instant now) {
  return admission_.started(worker(), request, now);
}

int64_t AdmissionController::replied(AdmittedSession& session, QueuedRequest& request,
                                     Nanos in_slices, Instant now) {
  update_if_due(now);
  if (now.ns() < probed_until_ns_.load()) {
    latencies_.ended(request.load, now - request.since, now);
  }
  return admission_.replied(worker(), session, request, in_slices, now);
}

int64_t AdmissionController::refused(AdmittedSession& session, QueuedRequest& request,
                                     Reason reason, Instant now) {
  update_if_due(now);
  return admission_.refused(worker(), session, request, static_cast<size_t>(reason), now);
}

void AdmissionController::withdraw(QueuedRequest& request) {
  admission_.withdraw(worker(), request);
}

int64_t AdmissionController::note_demand(AdmittedSession& session, uint32_t demand, Instant now) {
  update_if_due(now);
  return admission_.note_demand(worker(), session, demand, now);
}

int64_t AdmissionController::take_offer(AdmittedSession& session, Instant now) {
  return admission_.take_offer(worker(), session, now);
}

Nanos AdmissionController::retry_after() const {
  return std::max(admission_.published_delay(), options_.credits.target_delay);
}

// The time is renewed seldom, as all workers read it.
overload::ServerLoad AdmissionController::probe(Instant now) {
  update_if_due(now);
  probes_.fetch_add(1, std::memory_order_relaxed);
  const Instant until = now + kProbesMatter;
  if (until.ns() - probed_until_ns_.load() > kProbesMatter.count() / 2) {
    probed_until_ns_.store(until.ns());
  }
  const int64_t inside = std::max<int64_t>(pool().pending(), 0);
  return {static_cast<uint32_t>(inside), latencies_.expected(inside, now)};
}

AdmissionController::Counts AdmissionController::counts() const {
  Counts counts{admission_.counts()};
  counts.offered = offered_.load(std::memory_order_relaxed);
  counts.probes = probes_.load(std::memory_order_relaxed);
  const std::lock_guard lock(sessions_mutex_);
  counts.opened = opened_;
  counts.sessions_refused = refused_;
  counts.refused_of_address = refused_of_address_;
  counts.faults = faults_;
  return counts;
}

CreditReport AdmissionController::report() const {
  const Counts counts = this->counts();
  CreditReport report;
  report.sessions = sessions();
  report.drained = drained();
  report.total = pool().total();
  report.issued = pool().issued();
  report.delay = delay(now());
  const auto refused_by_admission =
      [&](Reason reason) { return counts.refused_by_admission[static_cast<size_t>(reason)]; };
  report.refusals[static_cast<size_t>(Refusal::kDelay)] = refused_by_admission(Reason::kOverloaded);
  report.refusals[static_cast<size_t>(Refusal::kShare)] = refused_by_admission(Reason::kOverCredit);
  return report;
}

}  // namespace rubato::rpc
