// SPDX-License-Identifier: Apache-2.0
//
// What one round of an idle worker takes, by the number of workers and by whether the other one
// comes to its queue: over a datapath on which nothing ever comes.
#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "base/limits.h"
#include "calibrate/measurements.h"
#include "calibrate/partner.h"
#include "datapath/loopback.h"
#include "mechanism/clock/clock.h"
#include "runtime/runtime.h"
#include "spin_server/spin_server.h"

namespace rubato::calibrate {
namespace {

class QuietQueue final : public DatapathQueue {
 public:
  std::function<void()> on_round;

  uint32_t poll(std::span<Request*>) override {
    // Where no round just before this one has written: virtual time skips rounds that are alike.
    ++rounds_;
    places_[rounds_ % places_.size()].store(rounds_, std::memory_order_relaxed);
    if (on_round) on_round();
    return 0;
  }
  // What it takes to ask is what it takes of the loopback datapath.
  const DatapathQueue* like = nullptr;
  bool pending() const override { return like->pending(); }
  Request* finish(Request&) override { return nullptr; }
  void flush(Request&) override {}
  void wait(Nanos) override {}
  void wake() override {}

 private:
  std::array<std::atomic<uint64_t>, 64> places_{};
  uint64_t rounds_ = 0;
};

class QuietDatapath final : public Datapath {
 public:
  QuietDatapath(uint32_t workers, Datapath& like) {
    for (uint32_t i = 0; i < workers; ++i) {
      queues_.push_back(std::make_unique<QuietQueue>());
      queues_.back()->like = &like.queue(WorkerId{i});
    }
  }
  QuietQueue& of(uint32_t worker) { return *queues_[worker]; }

  uint32_t queues() const override { return static_cast<uint32_t>(queues_.size()); }
  DatapathQueue& queue(WorkerId worker) override { return *queues_[worker.value]; }
  void drain() override {}
  uint64_t in_flight() const override { return 0; }
  DatapathStats stats() const override { return {}; }
  void for_each_flow(const std::function<void(const FlowInfo&)>&) override {}
  bool close_flow(uint64_t) override { return false; }

 private:
  std::vector<std::unique_ptr<QuietQueue>> queues_;
};

// `sticks`: the second worker never comes back from its first poll.
Status measure_rounds_of(const Meter& meter, uint32_t workers, bool sticks, Sample& sample) {
  spin::SpinServer application(spin::SpinOptions{});
  LoopbackOptions loopback;
  loopback.queues = workers;
  LoopbackDatapath like(loopback, application);
  QuietDatapath datapath(workers, like);
  RuntimeOptions options;
  options.policy = "cfcfs";
  options.workers = workers;
  options.idle = Idle::kSpin;
  auto runtime = Runtime::create(options, datapath, application);
  if (!runtime.ok()) return Error{runtime.error()};
  Collector collector(meter);
  uint64_t from = 0;
  uint32_t rounds = 0;
  std::atomic<bool> over{false};
  if (sticks) datapath.of(1).on_round = [&] { spin_until([&] { return over.load(); }); };
  const Instant stuck_at = now() + limits::kHelpAfter * 2;
  datapath.of(0).on_round = [&] {
    if (rounds++ % kBatch != 0) return;
    const uint64_t to = Meter::light_stamp();
    if (now() < stuck_at) return;
    if (from != 0) collector.add(meter.light_elapsed_ns(from, to) / kBatch, kBatch);
    if (!collector.more()) {
      over.store(true);
      (*runtime)->stop();
    }
    from = Meter::light_stamp();
  };
  (*runtime)->run();
  sample = collector.sample();
  return Done{};
}

}  // namespace

Status measure_rounds(const Meter& meter, const Place& place, Samples& samples) {
  Status measured = measure_rounds_of(meter, 1, false, samples[Operation::kRoundOfOne]);
  if (!measured.ok() || !place.two()) return measured;
  measured = measure_rounds_of(meter, 2, false, samples[Operation::kRoundOfTwo]);
  if (!measured.ok()) return measured;
  return measure_rounds_of(meter, 2, true, samples[Operation::kRoundBesideStuck]);
}

}  // namespace rubato::calibrate
