// SPDX-License-Identifier: Apache-2.0
//
// The verbs of the live host: put, take, look, steal.
#include <array>

#include "calibrate/measurements.h"
#include "calibrate/partner.h"
#include "policy/synergy.h"
#include "runtime/live_host.h"
#include "runtime/sleepers.h"
#include "runtime/turn.h"

namespace rubato::calibrate {
namespace {

constexpr uint32_t kEight = 8;

// Inboxes of kBatch workers, whose owner is the partner, and of one more, whose owner measures.
class Inboxes {
 public:
  static constexpr uint32_t kQueueCount = kBatch + 1;
  static constexpr QueueRef kOwn{0, kBatch};
  static constexpr QueueRef kWaiting{1, 0};  // shows when its head arrived

  Inboxes()
      : queues_(policy_, kQueueCount, kCapacity, kCapacity),
        shared_state_(kQueueCount, 0, nullptr),
        host_(queues_, cell_, hook::initial_plan(policy_), kQueueCount, stats_, shared_state_,
              sched::Draws(1, 0)) {}

  LiveHost<Synergy>& host() { return host_; }

  void fill(uint32_t each) {
    for (uint32_t index = 0; index < kBatch; ++index) {
      for (uint32_t i = 0; i < each; ++i) host_.put({0, index}, &jobs_[index * kEight + i]);
    }
  }
  void fill_own() {
    for (uint32_t i = 0; i < kBatch; ++i) host_.put(kOwn, &jobs_[i]);
  }
  void fill_waiting() { host_.put(kWaiting, &jobs_[0]); }
  void empty(QueueRef q) {
    while (host_.take(q) != nullptr) {}
  }
  void empty_all() {
    for (uint32_t index = 0; index < kQueueCount; ++index) empty({0, index});
  }

 private:
  static constexpr uint32_t kCapacity = 1024;

  const Synergy policy_{Synergy::Config{}};
  QueueSet<Synergy> queues_;
  PlanCell<Synergy::Plan> cell_;
  const std::vector<const WorkerStats*> stats_;
  SharedState shared_state_;
  LiveHost<Synergy> host_;
  std::array<Job, size_t{kBatch} * kEight> jobs_;
};

uint32_t look_at_all(Inboxes& inboxes) {
  uint32_t seen = 0;
  for (uint32_t index = 0; index < kBatch; ++index) seen += inboxes.host().depth({0, index});
  return seen;
}

void measure_ordered(const Meter& meter, Samples& samples) {
  OrderedQueue<Job*, ByWord> queue(kBatch);
  std::array<Job, kBatch> jobs;
  const auto fill = [&] {
    for (Job& job : jobs) queue.put(&job);
  };
  const auto empty = [&] {
    Job* job = nullptr;
    while (queue.take(job)) {}
  };
  samples[Operation::kOrderedPut] = meter.measure(kBatch, empty, fill);
  samples[Operation::kOrderedTake] = meter.measure(
      kBatch,
      [&] {
        empty();
        fill();
      },
      [&] {
        Job* job = nullptr;
        for (uint32_t i = 0; i < kBatch; ++i) queue.take(job);
      });
}

void measure_own(const Meter& meter, Samples& samples) {
  Inboxes inboxes;
  LiveHost<Synergy>& host = inboxes.host();
  samples[Operation::kPut] =
      meter.measure(kBatch, [&] { inboxes.empty(Inboxes::kOwn); }, [&] { inboxes.fill_own(); });
  inboxes.empty_all();
  samples[Operation::kTake] = meter.measure(
      kBatch, [&] { inboxes.fill_own(); },
      [&] {
        for (uint32_t i = 0; i < kBatch; ++i) host.take(Inboxes::kOwn);
      });
  measure_ordered(meter, samples);
  uint32_t seen = 0;
  constexpr uint32_t kRounds = 16;
  samples[Operation::kLook] = meter.measure(
      kRounds * kBatch, [] {},
      [&] {
        for (uint32_t i = 0; i < kRounds; ++i) seen += look_at_all(inboxes);
      });
  RUBATO_CHECK(seen == 0);
  Turn<> turn;
  samples[Operation::kTurn] = meter.measure(
      kBatch, [] {},
      [&] {
        for (uint32_t i = 0; i < kBatch; ++i) turn.take([&host] { host.refresh_plan(); });
      });
  Sleepers<> sleepers(kBatch);
  uint32_t asleep = 0;
  samples[Operation::kAwake] = meter.measure(
      kBatch, [] {},
      [&] {
        for (uint32_t i = 0; i < kBatch; ++i) asleep += sleepers.claim(WorkerId{i}) ? 1u : 0u;
      });
  RUBATO_CHECK(asleep == 0);
  inboxes.fill_waiting();
  uint32_t heads = 0;
  samples[Operation::kLookHead] = meter.measure(
      kBatch, [] {},
      [&] {
        for (uint32_t i = 0; i < kBatch; ++i) {
          heads += host.oldest(Inboxes::kWaiting) == Instant::never() ? 0u : 1u;
        }
      });
  RUBATO_CHECK(heads % kBatch == 0 && (heads > 0 || meter.stopped()));
}

// Every index's lines are the partner's when the thief comes.
Sample measure_steal(const Meter& meter, Partner& partner, Inboxes& inboxes, uint32_t each) {
  return meter.measure(
      kBatch,
      [&] {
        inboxes.empty_all();
        partner.run([&] { inboxes.fill(each); });
      },
      [&] {
        for (uint32_t index = 0; index < kBatch; ++index) {
          inboxes.host().steal({0, index}, Inboxes::kOwn, each);
        }
      });
}

}  // namespace

void measure_queues(const Meter& meter, const Place& place, Samples& samples) {
  const Pinned pinned(place);
  measure_own(meter, samples);
  Partner partner(place.there());
  Inboxes inboxes;
  if (place.two()) {
    uint32_t seen = 0;
    samples[Operation::kLookChanged] = meter.measure(
        kBatch,
        [&] {
          inboxes.empty_all();
          partner.run([&] { inboxes.fill(1); });
        },
        [&] { seen += look_at_all(inboxes); });
    RUBATO_CHECK(seen > 0 || meter.stopped());
  }
  samples[Operation::kStealOne] = measure_steal(meter, partner, inboxes, 1);
  samples[Operation::kStealEight] = measure_steal(meter, partner, inboxes, kEight);
}

}  // namespace rubato::calibrate
