// SPDX-License-Identifier: Apache-2.0
//
// What the live runtime and the loopback datapath add to a request: the empty poll, the way in, the
// way out, and the time until an idle worker has noticed something.
#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "base/limits.h"
#include "base/prng.h"
#include "calibrate/measurements.h"
#include "calibrate/partner.h"
#include "datapath/loopback.h"
#include "runtime/runtime.h"
#include "spin_server/spin_server.h"

namespace rubato::calibrate {
namespace {

// A poll takes so many requests: of as many, one has the poll before it.
constexpr uint32_t kPolled = limits::kBurst;
constexpr uint32_t kFlows = 16 * kPolled;  // flow kFlows + 1 is the gate's
constexpr uint32_t kGate = kFlows + 1;
constexpr std::string_view kShortest = "SPIN 0 SHORT\r\n";
constexpr std::string_view kLongest = "SPIN 0 LONG\r\n";
constexpr uint32_t kWarmRounds = 4;
constexpr Nanos kQuiet = Nanos::micros(3);  // for the worker to have gone idle
// Requests come at any point of an idle worker's round: up to so long after that, by this seed.
constexpr uint32_t kQuietVariesNs = 1000;
constexpr uint64_t kQuietSeed = 1;

// The spin server, with a gate at which a request of the long type waits until the client has
// submitted all the others, and the moments at which requests begin and are answered.
class GatedServer final : public Application {
 public:
  explicit GatedServer(spin::SpinServer& server) : server_(server) {}

  void handle(Request& request) override {
    if (request.type == spin::kLong) {
      at_gate_.store(true, std::memory_order_release);                    // A
      spin_until([&] { return open_.load(std::memory_order_acquire); });  // B
    } else if (begun_ < kFlows) {
      started_at_[begun_] = request.started;
      begun_at_[begun_++] = now();
    }
    server_.handle(request);
  }
  // On the worker, as the reply leaves.
  void replied(uint64_t flow) {
    if (flow == kGate) return;
    if (answered_ < kFlows) answered_at_[answered_++] = now();
    replies_.fetch_add(1, std::memory_order_release);  // C
  }

  // The client's side. A pairs the worker's arrival with the client's submits, B the client's
  // submits with the worker's going on. C: what was noted before the last reply is visible to the
  // client; its own changes are to the worker by the datapath's hand-over of the next submit.
  // Requires that every request has been answered.
  void forget() {
    begun_ = answered_ = 0;
    replies_.store(0, std::memory_order_relaxed);
  }
  void close_gate() {
    forget();
    at_gate_.store(false, std::memory_order_relaxed);
    open_.store(false, std::memory_order_relaxed);
  }
  void wait_at_gate() {
    spin_until([&] { return at_gate_.load(std::memory_order_acquire); });  // A
  }
  void open_gate() { open_.store(true, std::memory_order_release); }  // B
  void wait_replies(uint32_t count) {
    spin_until([&] { return replies_.load(std::memory_order_acquire) >= count; });  // C
  }
  Instant started_at(uint32_t i) const { return started_at_[i]; }  // the worker's last reading
  Instant begun_at(uint32_t i) const { return begun_at_[i]; }
  Instant answered_at(uint32_t i) const { return answered_at_[i]; }

 private:
  spin::SpinServer& server_;
  std::atomic<bool> at_gate_{false};
  std::atomic<bool> open_{false};
  std::atomic<uint32_t> replies_{0};
  uint32_t begun_ = 0;
  uint32_t answered_ = 0;
  std::array<Instant, kFlows> started_at_{};
  std::array<Instant, kFlows> begun_at_{};
  std::array<Instant, kFlows> answered_at_{};
};

class Rig {
 public:
  using Settings = std::map<std::string, std::string>;

  explicit Rig(const Place& place, const char* policy = "synergy", const Settings& settings = {})
      : application_(spin_), datapath_(loopback(), spin_) {
    for (uint32_t flow = 1; flow <= kGate; ++flow) RUBATO_CHECK(datapath_.connect() == flow);
    options_.policy = policy;
    options_.policy_settings = settings;
    options_.classify = Classify::kFeedback;
    options_.idle = Idle::kSpin;
    options_.pin = place.two();
    options_.pin_first = 1;
  }

  Status with_runtime(const std::function<void()>& body) {
    auto runtime = Runtime::create(options_, datapath_, application_);
    if (!runtime.ok()) return Error{runtime.error()};
    std::thread server([&] { (*runtime)->run(); });
    body();
    (*runtime)->stop();
    server.join();
    return Done{};
  }

  // All flows have a request waiting when the worker goes to work.
  void serve_all() {
    application_.close_gate();
    RUBATO_CHECK(datapath_.submit(kGate, kLongest));
    application_.wait_at_gate();
    for (uint32_t flow = 1; flow <= kFlows; ++flow) {
      RUBATO_CHECK(datapath_.submit(flow, kShortest));
    }
    application_.open_gate();
    application_.wait_replies(kFlows);
  }

  void measure_busy(const Meter& meter, Samples& samples) {
    Batches batches(meter);
    for (uint32_t round = 0; round < kWarmRounds; ++round) serve_all();
    while (batches.in.more()) {
      serve_all();
      for (uint32_t first = kPolled; first < kFlows; first += kPolled)
        add_batch(meter, first, batches);
    }
    samples[Operation::kPollBurst] = batches.burst.sample();
    samples[Operation::kReceive] = batches.in.sample();
    samples[Operation::kSend] = batches.out.sample();
    samples[Operation::kAfterReply] = batches.after.sample();
  }

  // The client's submit, and from there to the reply, one request at a time and the worker idle.
  void measure_idle(const Meter& meter, Samples& samples) {
    Collector submit(meter), whole(meter);
    uint64_t flow = 0;
    Prng prng(kQuietSeed);
    while (whole.more()) {
      flow = flow % kFlows + 1;
      application_.forget();
      const Instant submit_at = now() + kQuiet + Nanos(prng.below(kQuietVariesNs));
      while (now() < submit_at) continue;  // without a pause, which may last longer
      const Instant from = now();
      RUBATO_CHECK(datapath_.submit(flow, kShortest));
      const Instant submitted = now();
      application_.wait_replies(1);
      submit.add(elapsed_ns(meter, from, submitted), 1);
      whole.add(elapsed_ns(meter, from, application_.answered_at(0)), 1);
    }
    samples[Operation::kSubmit] = submit.sample();
    samples[Operation::kIdle] = whole.sample();
  }

  void measure_poll(const Meter& meter, Samples& samples) {
    DatapathQueue& queue = datapath_.queue(WorkerId{0});
    std::array<Request*, limits::kBurst> burst{};
    samples[Operation::kPoll] = meter.measure(
        kBatch, [] {},
        [&] {
          for (uint32_t i = 0; i < kBatch; ++i) queue.poll(burst);
        });
  }

 private:
  LoopbackOptions loopback() {
    LoopbackOptions options;
    options.max_flows = kGate;
    options.on_reply = [this](uint64_t flow, std::string_view) { application_.replied(flow); };
    return options;
  }

  struct Batches {
    explicit Batches(const Meter& meter) : burst(meter), in(meter), out(meter), after(meter) {}
    Collector burst, in, out, after;
  };

  static double elapsed_ns(const Meter& meter, Instant from, Instant to) {
    return std::max(0.0, static_cast<double>((to - from).count()) - meter.clock().median_ns);
  }

  // In: from a reply to the begin of the next request; the first of the batch has the poll for all
  // before it. Out: from the begin of a request to its reply. After: from there to the worker's
  // next reading of its clock, which is part of that.
  void add_batch(const Meter& meter, uint32_t first, Batches& batches) {
    const auto way_in = [&](uint32_t i) {
      return elapsed_ns(meter, application_.answered_at(i - 1), application_.begun_at(i));
    };
    double in_ns = 0, out_ns = 0, after_ns = 0;
    for (uint32_t i = first; i < first + kPolled; ++i) {
      out_ns += elapsed_ns(meter, application_.begun_at(i), application_.answered_at(i));
      if (i == first) continue;
      in_ns += way_in(i);
      const Nanos after = application_.started_at(i) - application_.answered_at(i - 1);
      after_ns += static_cast<double>(after.count());
    }
    batches.burst.add(way_in(first), 1);
    batches.in.add(in_ns / (kPolled - 1), kPolled - 1);
    batches.after.add(after_ns / (kPolled - 1), kPolled - 1);
    batches.out.add(out_ns / kPolled, kPolled);
  }

  spin::SpinServer spin_{spin::SpinOptions{}};
  GatedServer application_;
  LoopbackDatapath datapath_;
  RuntimeOptions options_;
};

// The way in under a policy that knows the types of requests after a window: from then on they
// have queues of their own, so that the one into which a worker polls is empty, and it polls again
// before each of them.
Status measure_ways_in(const Meter& meter, const Place& place, const char* window, Sample& way_in) {
  const Rig::Settings settings{{"window", window}};
  const auto rig = std::make_unique<Rig>(place, "fixed-priority", settings);
  Samples samples;
  const Status served = rig->with_runtime([&] {
    const Pinned pinned(place);
    rig->measure_busy(meter, samples);
  });
  way_in = samples[Operation::kReceive];
  return served;
}

Status measure_polls_between(const Meter& meter, const Place& place, Sample& between) {
  constexpr const char* kAtOnce = "1";
  constexpr const char* kNever = "1000000000";
  Sample with, without;
  if (Status s = measure_ways_in(meter, place, kNever, without); !s.ok()) return s;
  if (Status s = measure_ways_in(meter, place, kAtOnce, with); !s.ok()) return s;
  between = with.less(without.median_ns);
  return Done{};
}

}  // namespace

Status measure_requests(const Meter& meter, const Place& place, Samples& samples) {
  if (Status s = measure_polls_between(meter, place, samples[Operation::kPollBetween]); !s.ok()) {
    return s;
  }
  const auto rig = std::make_unique<Rig>(place);
  rig->measure_poll(meter, samples);
  // The runtime is made first: it counts the CPUs that its maker may use.
  return rig->with_runtime([&] {
    const Pinned pinned(place);
    rig->measure_busy(meter, samples);
    if (place.two()) rig->measure_idle(meter, samples);
  });
}

}  // namespace rubato::calibrate
