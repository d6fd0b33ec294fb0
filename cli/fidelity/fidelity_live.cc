// SPDX-License-Identifier: Apache-2.0
#include "cli/fidelity/fidelity_live.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <thread>

#include "base/timespec.h"
#include "datapath/loopback.h"
#include "load/core_watch.h"
#include "load/stalls.h"
#include "mechanism/clock/clock.h"
#include "mechanism/cpu/pin.h"
#include "mechanism/cpu/pause.h"
#include "runtime/runtime.h"
#include "sim/setup.h"
#include "spin_server/spin_server.h"

namespace rubato::cli {
namespace {

constexpr Nanos kLateAfter = Nanos::micros(5);
constexpr Nanos kStartAfter = Nanos::millis(50);
constexpr Nanos kVirtualStartAfter = Nanos::micros(100);
constexpr Nanos kLookEvery = Nanos::micros(10);  // whether a flow is free, or all are open
constexpr Nanos kPatience = Nanos::seconds(30);  // for the last replies

void sleep_until(Instant due) {
  const timespec at = timespec_of(due - Instant());
  ::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, nullptr);
}

class Sender {
 public:
  Sender(const LiveSetup& setup, const std::vector<Offer>& offers)
      : setup_(setup),
        offers_(offers),
        sides_(setup.flows + 1),
        replied_ns_(offers.size(), kUnanswered) {}

  // On the worker that replies. Its stores are released by `busy` and acquired by the sender.
  void replied(uint64_t flow, Instant at, bool refused) {
    Side& side = sides_[flow];
    if (refused) refused_.fetch_add(1, std::memory_order_relaxed);
    replied_ns_[side.offer] = refused ? kUnanswered : at.ns();
    side.busy.store(false, std::memory_order_release);
  }

  Status send_all(LoopbackDatapath& datapath, const Clock& clock);
  LiveRun result(const RuntimeStats& stats) const;

 private:
  Status connect(LoopbackDatapath& datapath, const Clock& clock);
  Status await_open(const LoopbackDatapath& datapath, const Clock& clock);
  void watch(Instant now);
  void wait_until(Instant due, const Clock& clock);
  void look_again(const Clock& clock);
  void await_replies(const Clock& clock);

  struct Side {
    std::atomic<bool> busy{false};
    size_t offer = 0;
  };
  static constexpr int64_t kUnanswered = -1;

  // Null = all are in use: more requests are in flight than there are flows.
  uint64_t free_flow() {
    for (uint32_t tried = 0; tried < setup_.flows; ++tried) {
      turn_ = turn_ % setup_.flows + 1;
      if (!sides_[turn_].busy.load(std::memory_order_acquire)) return turn_;
    }
    return 0;
  }

  uint64_t await_flow(const Clock& clock) {
    uint64_t flow = free_flow();
    if (flow == 0) ++run_.held_back;
    while (flow == 0) {
      look_again(clock);
      flow = free_flow();
    }
    return flow;
  }

  const LiveSetup& setup_;
  const std::vector<Offer>& offers_;
  std::vector<Side> sides_;  // by flow, which the datapath numbers from 1 on
  std::vector<int64_t> replied_ns_;
  std::atomic<uint64_t> refused_{0};
  uint64_t turn_ = 1;  // the first request goes to worker 1, as by the simulated turns (sim/nic.h)
  Instant start_;
  Instant next_watch_;
  bool warm_ = false;
  std::optional<load::CoreWatch> watch_;
  std::vector<load::Stall> found_;
  load::Stalls stalls_;
  LiveRun run_;
};

// To open thousands of flows takes the workers as long as many requests, which is no part of a run.
Status Sender::await_open(const LoopbackDatapath& datapath, const Clock& clock) {
  const Instant until = clock.now() + kPatience;
  while (datapath.stats().flows_open < setup_.flows) {
    if (clock.now() >= until) return Error{"the server opens no flows"};
    sleep_until(clock.now() + kLookEvery);
  }
  return Done{};
}

Status Sender::connect(LoopbackDatapath& datapath, const Clock& clock) {
  for (uint32_t i = 1; i <= setup_.flows; ++i) {
    if (datapath.connect() != i) return Error{"the loopback datapath numbers flows otherwise"};
  }
  if (Status opened = await_open(datapath, clock); !opened.ok()) return opened;
  // Nothing but the runtime takes its time in virtual time.
  if (setup_.host != nullptr) return Done{};
  auto opened = load::CoreWatch::open(static_cast<uint32_t>(::getpid()));
  if (!opened.ok()) return Error{opened.error()};
  watch_.emplace(std::move(*opened));
  return Done{};
}

// The busy threads are known after a tenth of the run, which is not measured.
void Sender::watch(Instant now) {
  if (!watch_ || now < next_watch_) return;
  next_watch_ = now + load::kWatchInterval;
  const Nanos warm = (offers_.back().at - Instant()) / 10;
  if (!warm_ && now - start_ >= warm) {
    warm_ = true;
    watch_->keep_busy();
  }
  found_.clear();
  watch_->poll(now - start_, found_);
  for (const load::Stall& stall : found_) stalls_.add(stall);
}

void Sender::wait_until(Instant due, const Clock& clock) {
  if (!watch_) return sleep_until(due);
  for (Instant now = clock.now(); now < due; now = clock.now()) watch(now);
}

void Sender::look_again(const Clock& clock) {
  if (!watch_) return sleep_until(clock.now() + kLookEvery);
  watch(clock.now());
}

void Sender::await_replies(const Clock& clock) {
  const Instant until = clock.now() + kPatience;
  for (uint64_t flow = 1; flow <= setup_.flows; ++flow) {
    while (sides_[flow].busy.load(std::memory_order_acquire) && clock.now() < until) {
      look_again(clock);
    }
  }
}

Status Sender::send_all(LoopbackDatapath& datapath, const Clock& clock) {
  if (Status ready = connect(datapath, clock); !ready.ok()) return ready;
  start_ = clock.now() + kStartAfter;
  if (!watch_) {
    const int64_t step_ns = kVirtualStartAfter.count();
    start_ = Instant((clock.now().ns() / step_ns + 2) * step_ns);
  }
  sleep_until(start_);
  if (watch_) watch_->begin();
  const size_t types = setup_.is_long.size();
  const bool names_types = types > 2 && types <= spin::kTypes - spin::kFirstNamed;
  for (size_t i = 0; i < offers_.size(); ++i) {
    const Offer& offer = offers_[i];
    const Instant due = start_ + (offer.at - Instant());
    // What the server calls short and long, or of more types which one it is.
    const std::string named =
        names_types ? fmt::format(" {}", spin::kFirstNamed + offer.type) : "";
    const std::string message =
        fmt::format("SPIN {} {}{}\r\n", offer.service.count(),
                    setup_.is_long[offer.type] ? "LONG" : "SHORT", named);
    wait_until(due, clock);
    const uint64_t flow = await_flow(clock);
    sides_[flow].offer = i;
    sides_[flow].busy.store(true, std::memory_order_relaxed);
    const Nanos lag = clock.now() - due;
    run_.late += lag > kLateAfter ? 1u : 0u;
    run_.worst_lag = std::max(run_.worst_lag, lag);
    if (!datapath.submit(flow, message)) return Error{"the loopback datapath refused a request"};
  }
  run_.sent_after = clock.now() - start_;
  await_replies(clock);
  run_.lasted = clock.now() - start_;
  return Done{};
}

LiveRun Sender::result(const RuntimeStats& stats) const {
  LiveRun run = run_;
  run.refused = refused_.load(std::memory_order_relaxed);
  run.preemptions = stats.preemptions;
  run.stalls = stalls_.count();
  run.stalled = stalls_.lost();
  for (size_t i = 0; i < offers_.size(); ++i) {
    const Instant due = start_ + (offers_[i].at - Instant());
    const bool answered = replied_ns_[i] != kUnanswered;
    run.latency.push_back(answered ? Instant(replied_ns_[i]) - due : Nanos(-1));
    run.touched.push_back(stalls_.touch(offers_[i].at - Instant()));
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
  options.slow_threshold = Nanos::max();
  options.seed = setup.seed ^ sim::kHostStream;  // policies draw as the simulated ones do
  return options;
}

Result<LiveRun> run_here(const LiveSetup& setup, const std::vector<Offer>& offers) {
  const std::vector<uint32_t> cpus = allowed_cpus();
  if (cpus.size() < setup.workers + 1) {
    return Error{fmt::format("workers: {} and the sender need {} CPUs, this machine has {}",
                             setup.workers, setup.workers + 1, cpus.size())};
  }
  auto clock = Clock::calibrate();
  if (!clock.ok()) return Error{clock.error()};
  Sender sender(setup, offers);
  spin::SpinOptions spinning;
  if (setup.host != nullptr) spinning.work = setup.host->work;
  spin::SpinServer application(spinning);
  LoopbackOptions loopback;
  loopback.queues = setup.workers;
  loopback.max_flows = setup.flows;
  loopback.on_reply = [&](uint64_t flow, std::string_view bytes) {
    const Instant at = setup.host != nullptr ? setup.host->clock() : clock->now();
    sender.replied(flow, at, bytes.empty() || bytes.front() == '-');
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

}  // namespace

Result<LiveRun> run_live(const LiveSetup& setup, const std::vector<Offer>& offers) {
  if (setup.host == nullptr) return run_here(setup, offers);
  Result<LiveRun> run = Error{"the world in virtual time failed"};
  setup.host->run(setup.seed, setup.world, [&] {
    run = run_here(setup, offers);
    return run.ok();
  });
  return run;
}

}  // namespace rubato::cli
