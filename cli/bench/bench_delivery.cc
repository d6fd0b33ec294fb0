// SPDX-License-Identifier: Apache-2.0
//
// The way of one interrupt, from the sender to the victim's handler and back (Synergy 5.2.3). The
// victim reads the cycle counter all the time, so that its last instruction before the handler and
// its first instruction after it are known to within one reading.
#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>
#include <utility>

#include "base/prng.h"
#include "calibrate/partner.h"
#include "cli/bench/bench_preempt.h"
#include "cli/common/interrupt.h"
#include "mechanism/preempt/checkpoint.h"
#include "mechanism/preempt/timer.h"
#include "runtime/slice_clock.h"

namespace rubato::cli {
namespace {

using namespace calibrate;

constexpr Nanos kTimer = Nanos::micros(20);

struct Stamps {
  uint64_t before = 0;  // rt0
  uint64_t entered = 0;
  uint64_t left = 0;
  uint64_t back = 0;  // rt3
};

class Victim final : public InterruptTarget {
 public:
  explicit Victim(PreemptMechanism mechanism) : mechanism_(mechanism) {}

  // In the handler, or at a checkpoint.
  void interrupted(uintptr_t, bool) override {
    stamps_.entered = process_clock().cycles();
    stamps_.before = last_;
    handled_ = true;
    stamps_.left = process_clock().cycles();
  }

  // On the victim's thread: opens the line through which the thread is interrupted.
  Status open() {
    if (mechanism_ == PreemptMechanism::kCheckpoint) {
      clock_.attach();
      g_victim = this;
      checkpoint_set_handler([] {
        g_victim->at_checkpoint();
        return false;
      });
      begin_slice();
      return Done{};
    }
    auto line = open_interrupt_line(mechanism_, *this);
    if (!line.ok()) return Error{line.error()};
    line_ = std::move(*line);
    return Done{};
  }
  void close() {
    line_.reset();
    if (!at_checkpoints()) return;
    clock_.stop();
    checkpoint_set_handler(nullptr);
  }

  // Runs until `enough`, and counts every interrupt in `answered`.
  template <class Enough>
  void run_until(Enough&& enough) {
    while (!enough()) {
      last_ = process_clock().cycles();
      if (handled_) {
        stamps_.back = last_;
        handled_ = false;
        answered_.store(answered_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
      }
      if (at_checkpoints()) checkpoint();
    }
  }

  // As the timer core does (runtime/timer_core.h).
  void send() {
    if (!at_checkpoints()) return line_->send();
    TimerSlot& slot = clock_.slot();
    slot.asked.store(slot.armed.load(std::memory_order_acquire), std::memory_order_release);
    checkpoint_expire(slot.budget.load(std::memory_order_relaxed));
  }

  // Releases the stamps of that many interrupts.
  const std::atomic<uint64_t>& answered() const { return answered_; }
  const Stamps& stamps() const { return stamps_; }

 private:
  bool at_checkpoints() const { return mechanism_ == PreemptMechanism::kCheckpoint; }
  void begin_slice() { clock_.start(Instant(), Nanos(1), Job(), Nanos()); }
  void at_checkpoint() {
    if (!clock_.over(Instant())) return;
    interrupted(0, false);
    begin_slice();
  }

  static inline Victim* g_victim = nullptr;

  const PreemptMechanism mechanism_;
  std::unique_ptr<InterruptLine> line_;
  SliceClock clock_{SliceWatch::kTimerCore};
  volatile uint64_t last_ = 0;
  volatile bool handled_ = false;
  Stamps stamps_;
  std::atomic<uint64_t> answered_{0};
};

struct Series {
  explicit Series(uint32_t rounds) {
    for (auto* one : {&send, &propagation, &receive, &come_back, &disarm}) one->reserve(rounds);
  }
  void add(const Stamps& stamps, uint64_t sent, uint64_t sending_done, uint64_t due) {
    send.push_back(ns(sent, sending_done));
    propagation.push_back(ns(due, stamps.entered));
    receive.push_back(ns(stamps.before, stamps.entered));
    come_back.push_back(ns(stamps.left, stamps.back));
  }
  Delivery delivery() {
    return {spread_of(send), spread_of(propagation), spread_of(receive), spread_of(come_back),
            spread_of(disarm)};
  }
  double ns(uint64_t from, uint64_t to) const {
    return to > from ? static_cast<double>(to - from) * ns_per_cycle : 0;
  }

  const double ns_per_cycle = 1e9 / process_clock().frequency_hz();
  std::vector<double> send;
  std::vector<double> propagation;
  std::vector<double> receive;
  std::vector<double> come_back;
  std::vector<double> disarm;
};

// Interrupts from another CPU, at moments that are independent of the victim.
Result<Delivery> measure_sent(PreemptMechanism mechanism, const Place& place, uint32_t rounds) {
  if (!place.two()) return Error{"it takes two CPUs"};
  const Pinned here(place);
  Victim victim(mechanism);
  Partner partner(place.there());
  Status opened = Done{};
  partner.run([&] { opened = victim.open(); });
  if (!opened.ok()) return Error{opened.error()};
  std::atomic<bool> enough{false};
  partner.start([&] { victim.run_until([&] { return enough.load(std::memory_order_relaxed); }); });
  Series series(rounds);
  Prng prng(1);
  for (uint64_t round = 1; round <= rounds && !interrupted(); ++round) {
    const Instant at = now() + Nanos(prng.below(1000));
    while (now() < at) {}
    const uint64_t sent = process_clock().cycles();
    victim.send();
    const uint64_t done = process_clock().cycles();
    spin_until([&] { return victim.answered().load(std::memory_order_acquire) >= round; });
    series.add(victim.stamps(), sent, done, sent);
  }
  enough.store(true, std::memory_order_relaxed);
  partner.wait();
  partner.run([&] { victim.close(); });
  return series.delivery();
}

// Interrupts by a timer of the victim itself: the delay counts from the time the timer was due.
Result<Delivery> measure_timer(const Place& place, uint32_t rounds) {
  const Pinned here(place);
  Victim victim(PreemptMechanism::kTimer);
  if (Status opened = victim.open(); !opened.ok()) return Error{opened.error()};
  auto timer = WorkerTimer::make();
  if (!timer.ok()) return Error{timer.error()};
  Series series(rounds);
  const auto ahead = static_cast<uint64_t>(static_cast<double>(kTimer.count()) /
                                           series.ns_per_cycle);
  for (uint64_t round = 1; round <= rounds && !interrupted(); ++round) {
    const uint64_t arming = process_clock().cycles();
    (*timer)->arm(kTimer);
    const uint64_t armed = process_clock().cycles();
    victim.run_until([&] { return victim.answered().load(std::memory_order_relaxed) >= round; });
    series.add(victim.stamps(), arming, armed, arming + ahead);
    (*timer)->arm(Nanos::seconds(3600));
    const uint64_t from = process_clock().cycles();
    (*timer)->disarm();
    series.disarm.push_back(series.ns(from, process_clock().cycles()));
  }
  timer->reset();
  victim.close();
  return series.delivery();
}

}  // namespace

Spread spread_of(std::vector<double>& ns) {
  if (ns.empty()) return {};
  std::sort(ns.begin(), ns.end());
  const auto at = [&ns](double share) {
    const auto index = static_cast<size_t>(share * static_cast<double>(ns.size()));
    return ns[std::min(index, ns.size() - 1)];
  };
  return {at(0.5), at(0.999), ns.size()};
}

Result<Delivery> measure_delivery(PreemptMechanism mechanism, const Place& place, uint32_t rounds) {
  return mechanism == PreemptMechanism::kTimer ? measure_timer(place, rounds)
                                               : measure_sent(mechanism, place, rounds);
}

}  // namespace rubato::cli
