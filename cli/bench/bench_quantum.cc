// SPDX-License-Identifier: Apache-2.0
//
// Slices on the live runtime: two requests share a worker, and each notes when it runs. This gives
// the real length of a slice, and the time in between when the worker ran neither request, which is
// the whole cost of a preemption: interrupt, runtime, switch, return.
#include <array>
#include <atomic>
#include <memory>

#include "cli/bench/bench_preempt.h"
#include "cli/common/interrupt.h"
#include "datapath/loopback.h"
#include "mechanism/preempt/preempt_disable.h"
#include "runtime/runtime.h"
#include "spin_server/spin_server.h"

namespace rubato::cli {
namespace {

using namespace calibrate;

constexpr std::string_view kRequest = "SPIN 0 SHORT\r\n";
constexpr uint32_t kRequests = 2;

// The notes of the two requests. They run on one worker, and any instruction may be the last of a
// slice: each request has its own last stamp, and notes a new slice in a non-preemptible region.
class Slices {
 public:
  explicit Slices(uint32_t wanted) : wanted_(wanted) {
    achieved_.reserve(wanted + 1);
    cost_.reserve(wanted + 1);
  }

  void run(bool checkpoints) {
    const uint32_t me = arrived_.fetch_add(1, std::memory_order_relaxed);
    while (!done_.load(std::memory_order_relaxed)) {
      const uint64_t at = process_clock().cycles();
      if (owner_.load(std::memory_order_relaxed) != me) {
        begin(me);
      } else {
        last_[me].store(at, std::memory_order_relaxed);
      }
      if (checkpoints) checkpoint();
    }
  }

  Quantum quantum(Nanos asked) {
    return {asked, spread_of(achieved_), spread_of(cost_)};
  }

 private:
  static constexpr uint32_t kNobody = UINT32_MAX;

  // (The reading that the caller has made may be from before it was interrupted.)
  void begin(uint32_t me) {
    const PreemptDisableGuard whole;
    const uint64_t at = process_clock().cycles();
    const uint32_t other = owner_.load(std::memory_order_relaxed);
    if (other == me) return;
    if (other != kNobody) {
      const uint64_t end = last_[other].load(std::memory_order_relaxed);
      if (begun_ < end && end < at && achieved_.size() < wanted_) {
        achieved_.push_back(static_cast<double>(end - begun_) * ns_per_cycle_);
        cost_.push_back(static_cast<double>(at - end) * ns_per_cycle_);
      }
    }
    begun_ = at;
    last_[me].store(at, std::memory_order_relaxed);
    owner_.store(me, std::memory_order_relaxed);
    const bool enough = achieved_.size() >= wanted_ || interrupted();
    if (enough) done_.store(true, std::memory_order_relaxed);
  }

  const double ns_per_cycle_ = 1e9 / process_clock().frequency_hz();
  const size_t wanted_;
  std::vector<double> achieved_;
  std::vector<double> cost_;
  std::array<std::atomic<uint64_t>, kRequests> last_{};
  std::atomic<uint32_t> owner_{kNobody};
  std::atomic<uint32_t> arrived_{0};
  std::atomic<bool> done_{false};
  uint64_t begun_ = 0;
};

class Sharing final : public Application {
 public:
  Sharing(Slices& slices, bool checkpoints) : slices_(slices), checkpoints_(checkpoints) {}
  void handle(Request& request) override {
    slices_.run(checkpoints_);
    request.reply->append("+OK\r\n");
  }

 private:
  Slices& slices_;
  const bool checkpoints_;
};

}  // namespace

Result<Quantum> measure_quantum(PreemptMechanism mechanism, const Place& place, Nanos asked,
                                uint32_t slices) {
  RuntimeOptions options;
  options.policy = "ps";
  options.policy_settings["quantum"] = std::to_string(asked.count()) + "ns";
  options.preempt = mechanism;
  options.idle = Idle::kSpin;
  options.pin = place.two();
  options.pin_first = 1;
  options.slow_threshold = Nanos::max();
  spin::SpinServer protocol(spin::SpinOptions{});
  Slices taken(slices);
  Sharing application(taken, mechanism == PreemptMechanism::kCheckpoint);
  uint32_t left = kRequests;
  std::unique_ptr<Runtime> runtime;
  LoopbackOptions loopback;
  loopback.on_reply = [&](uint64_t, std::string_view) {
    if (--left == 0) runtime->stop();
  };
  LoopbackDatapath datapath(loopback, protocol);
  for (uint32_t i = 0; i < kRequests; ++i) {
    RUBATO_CHECK(datapath.submit(datapath.connect(), kRequest));
  }
  auto made = Runtime::create(options, datapath, application);
  if (!made.ok()) return Error{made.error()};
  runtime = std::move(*made);
  runtime->run();
  runtime.reset();
  return taken.quantum(asked);
}

}  // namespace rubato::cli
