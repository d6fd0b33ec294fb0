// SPDX-License-Identifier: Apache-2.0
#include "cli/fidelity_live.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "datapath/loopback.h"
#include "mechanism/clock/clock.h"
#include "mechanism/cpu/pin.h"
#include "mechanism/cpu/relax.h"
#include "runtime/runtime.h"
#include "spin_server/spin_server.h"

namespace rubato::cli {
namespace {

// One flow carries one request at a time, so that the order within a flow delays nobody.
constexpr uint32_t kFlows = 2048;
constexpr Nanos kLateAfter = Nanos::micros(5);
constexpr Nanos kStartAfter = Nanos::millis(50);
constexpr Nanos kPatience = Nanos::seconds(30);  // for the last replies

class Sender {
 public:
  Sender(const LiveSetup& setup, const std::vector<Offer>& offers)
      : setup_(setup),
        offers_(offers),
        lanes_(kFlows + 1),
        replied_ns_(offers.size(), kUnanswered) {}

  // On the worker that replies. Its stores are released by `busy` and acquired by the sender.
  void replied(uint64_t flow, Instant at, bool refused) {
    Lane& lane = lanes_[flow];
    if (refused) refused_.fetch_add(1, std::memory_order_relaxed);
    replied_ns_[lane.offer] = refused ? kUnanswered : at.ns();
    lane.busy.store(false, std::memory_order_release);
  }

  Status send_all(LoopbackDatapath& datapath, const Clock& clock);
  LiveRun result(const RuntimeStats& stats) const;

 private:
  struct Lane {
    std::atomic<bool> busy{false};
    size_t offer = 0;
  };
  static constexpr int64_t kUnanswered = -1;

  // Null = all are in use: more requests are in flight than there are flows.
  uint64_t free_flow() {
    for (uint32_t tried = 0; tried < kFlows; ++tried) {
      turn_ = turn_ % kFlows + 1;
      if (!lanes_[turn_].busy.load(std::memory_order_acquire)) return turn_;
    }
    return 0;
  }

  const LiveSetup& setup_;
  const std::vector<Offer>& offers_;
  std::vector<Lane> lanes_;  // by flow, which the datapath numbers from 1 on
  std::vector<int64_t> replied_ns_;
  std::atomic<uint64_t> refused_{0};
  uint64_t turn_ = 0;
  Instant start_;
  LiveRun run_;
};

Status Sender::send_all(LoopbackDatapath& datapath, const Clock& clock) {
  for (uint32_t i = 1; i <= kFlows; ++i) {
    if (datapath.connect() != i) return Error{"the loopback datapath numbers flows otherwise"};
  }
  start_ = clock.now() + kStartAfter;
  for (size_t i = 0; i < offers_.size(); ++i) {
    const Offer& offer = offers_[i];
    const Instant due = start_ + (offer.at - Instant());
    const std::string message = fmt::format("SPIN {} {}\r\n", offer.service.count(),
                                            setup_.is_long[offer.type] ? "LONG" : "SHORT");
    while (clock.now() < due) cpu_relax();
    uint64_t flow = free_flow();
    while (flow == 0) flow = free_flow();
    lanes_[flow].offer = i;
    lanes_[flow].busy.store(true, std::memory_order_relaxed);
    const Nanos lag = clock.now() - due;
    run_.late += lag > kLateAfter ? 1u : 0u;
    run_.worst_lag = std::max(run_.worst_lag, lag);
    if (!datapath.submit(flow, message)) return Error{"the loopback datapath refused a request"};
  }
  const Instant until = clock.now() + kPatience;
  for (uint64_t flow = 1; flow <= kFlows; ++flow) {
    while (lanes_[flow].busy.load(std::memory_order_acquire) && clock.now() < until) cpu_relax();
  }
  return Done{};
}

LiveRun Sender::result(const RuntimeStats& stats) const {
  LiveRun run = run_;
  run.refused = refused_.load(std::memory_order_relaxed);
  run.preemptions = stats.preemptions;
  for (size_t i = 0; i < offers_.size(); ++i) {
    const Instant due = start_ + (offers_[i].at - Instant());
    const bool answered = replied_ns_[i] != kUnanswered;
    run.latency.push_back(answered ? Instant(replied_ns_[i]) - due : Nanos(-1));
  }
  return run;
}

RuntimeOptions runtime_options(const LiveSetup& setup) {
  RuntimeOptions options;
  options.policy = setup.policy;
  for (const auto& [name, value] : setup.settings) options.policy_settings[name] = value;
  options.workers = setup.workers;
  options.classify = Classify::kFeedback;
  options.idle = Idle::kSpin;
  options.pin = true;
  options.pin_first = 1;
  return options;
}

}  // namespace

Result<LiveRun> run_live(const LiveSetup& setup, const std::vector<Offer>& offers) {
  const std::vector<uint32_t> cpus = allowed_cpus();
  if (cpus.size() < setup.workers + 1) {
    return Error{fmt::format("workers: {} and the sender need {} CPUs, this machine has {}",
                             setup.workers, setup.workers + 1, cpus.size())};
  }
  auto clock = Clock::calibrate();
  if (!clock.ok()) return Error{clock.error()};
  Sender sender(setup, offers);
  spin::SpinServer application(spin::SpinOptions{});
  LoopbackOptions loopback;
  loopback.queues = setup.workers;
  loopback.max_flows = kFlows;
  loopback.on_reply = [&](uint64_t flow, std::string_view bytes) {
    sender.replied(flow, clock->now(), bytes.empty() || bytes.front() == '-');
  };
  LoopbackDatapath datapath(loopback, application);
  auto runtime = Runtime::create(runtime_options(setup), datapath, application);
  if (!runtime.ok()) return Error{runtime.error()};
  std::thread server([&] { (*runtime)->run(); });
  Status sent = pin_this_thread(cpus.front());
  if (sent.ok()) sent = sender.send_all(datapath, *clock);
  (*runtime)->stop();
  server.join();
  if (Status freed = pin_this_thread_to_any(cpus); !freed.ok()) return Error{freed.error()};
  if (!sent.ok()) return Error{sent.error()};
  return sender.result((*runtime)->stats());
}

}  // namespace rubato::cli
