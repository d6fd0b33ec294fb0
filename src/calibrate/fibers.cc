// SPDX-License-Identifier: Apache-2.0
//
// Switches between fibers, on one CPU and across two; flags between CPUs.
#include <array>
#include <cstring>
#include <memory>

#include "calibrate/measurements.h"
#include "calibrate/partner.h"
#include "mechanism/fiber/fiber.h"
#include "mechanism/preempt/checkpoint.h"

namespace rubato::calibrate {
namespace {

constexpr size_t kWorkingBytes = 512;  // of a fiber's stack that it uses again when it goes on

// A fiber that touches some of its stack and goes back to the fiber that resumed it.
struct Bouncer {
  Fiber fiber;
  Fiber* back = nullptr;
};

void bounce(void* argument) {
  auto& self = *static_cast<Bouncer*>(argument);
  fiber_entered(self.fiber);
  volatile unsigned char work[kWorkingBytes] = {};
  for (;;) {
    for (size_t i = 0; i < kWorkingBytes; i += limits::kCacheLineBytes) {
      work[i] = static_cast<unsigned char>(work[i] + 1);
    }
    fiber_switch(self.fiber, *self.back);
  }
}

class PingPong {
 public:
  PingPong() : pool_(kStackDefaultBytes, kBatch) {
    for (Bouncer& b : ping_pong_) {
      Stack* const stack = pool_.take();
      RUBATO_CHECK(stack != nullptr);
      fiber_start(b.fiber, stack, &bounce, &b);
    }
  }
  ~PingPong() {
    for (Bouncer& b : ping_pong_) {
      pool_.give(b.fiber.stack);
      fiber_finish(b.fiber);
    }
  }

  // Into every fiber and back, on the thread that `from` stands for.
  void visit_all(Fiber& from) {
    for (Bouncer& b : ping_pong_) {
      b.back = &from;
      fiber_switch(from, b.fiber);
    }
  }
  // The same one over and over.
  void visit_one(Fiber& from) {
    ping_pong_[0].back = &from;
    for (uint32_t i = 0; i < kBatch; ++i) fiber_switch(from, ping_pong_[0].fiber);
  }

 private:
  StackPool pool_;
  std::array<Bouncer, kBatch> ping_pong_;
};

}  // namespace

void measure_fibers(const Meter& meter, const Place& place, Samples& samples) {
  const Pinned pinned(place);
  Fiber here;
  fiber_adopt_thread(here);
  PingPong ping_pong;
  const auto visit_all = [&] { ping_pong.visit_all(here); };
  samples[Operation::kSwitch] =
      meter.measure(2 * kBatch, [] {}, [&] { ping_pong.visit_one(here); });
  samples[Operation::kResumeHere] = meter.measure(kBatch, visit_all, visit_all);
  if (!place.two()) return;
  Partner partner(place.there());
  Fiber there;
  partner.run([&] { fiber_adopt_thread(there); });
  samples[Operation::kResumeThere] =
      meter.measure(kBatch, [&] { partner.run([&] { ping_pong.visit_all(there); }); }, visit_all);
}

// The timer core's way of asking for a preemption: a store into the worker's line, which the worker
// polls.
void measure_flags(const Meter& meter, const Place& place, Samples& samples) {
  if (!place.two()) return;
  const Pinned pinned(place);
  struct alignas(limits::kCacheLineBytes) Flag {
    std::atomic<uint32_t> value{0};
  };
  auto flags = std::make_unique<std::array<Flag, 2>>();
  std::atomic<uint32_t>& ask = (*flags)[0].value;
  std::atomic<uint32_t>& answer = (*flags)[1].value;
  Partner partner(place.there());
  // Relaxed: the flags carry nothing but themselves.
  constexpr uint32_t kStop = UINT32_MAX;
  partner.start([&] {
    for (uint32_t seen = 0; seen != kStop;) {
      const uint32_t asked = ask.load(std::memory_order_relaxed);
      if (asked == seen) continue;
      seen = asked;
      answer.store(seen, std::memory_order_relaxed);
    }
  });
  uint32_t turn = 0;
  // A store to a line that the other CPU is looking at, and the wait until it has seen it.
  const Sample seen = meter.measure(
      2 * kBatch, [] {},
      [&] {
        for (uint32_t i = 0; i < kBatch; ++i) {
          ask.store(++turn, std::memory_order_relaxed);
          spin_until([&] { return answer.load(std::memory_order_relaxed) == turn; });
        }
      });
  // Who waits is in the midst of a round when that comes, on average: one pauses, one does not.
  // Each stores elsewhere: virtual time skips rounds that are alike.
  std::array<Flag, kBatch> own;
  const auto time_own = [&](bool waits) {
    return meter.measure(
        kBatch, [] {},
        [&] {
          for (Flag& flag : own) {
            flag.value.store(turn, std::memory_order_relaxed);
            if (waits) static_cast<void>(flag.value.load(std::memory_order_relaxed));
            if (waits) cpu_pause();
            static_cast<void>(flag.value.load(std::memory_order_relaxed));
          }
        });
  };
  const double store_and_look = time_own(false).median_ns;
  const double half_a_round = (time_own(true).median_ns - store_and_look / 2) / 4;
  samples[Operation::kFlagSeen] = seen.less(store_and_look + half_a_round);
  samples[Operation::kFlagSend] = meter.measure(
      kBatch, [] {},
      [&] {
        for (uint32_t i = 0; i < kBatch; ++i) { ask.exchange(++turn, std::memory_order_acq_rel); }
      });
  ask.store(kStop, std::memory_order_relaxed);
  partner.wait();
}

}  // namespace rubato::calibrate
