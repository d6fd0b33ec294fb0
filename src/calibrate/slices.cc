// SPDX-License-Identifier: Apache-2.0
//
// Time slices on the live runtime: starting one, announcing a long request, a slice that ends and
// goes on, one that ends in a preemption, and how late a checkpoint notices the end.
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "calibrate/measurements.h"
#include "datapath/loopback.h"
#include "runtime/runtime.h"
#include "runtime/slice_clock.h"
#include "spin_server/spin_server.h"

namespace rubato::calibrate {
namespace {

constexpr std::string_view kRequest = "SPIN 0 SHORT\r\n";
constexpr Nanos kShortSlice(100);  // the shortest that the policy takes; over at every checkpoint
constexpr Nanos kUsualSlice = Nanos::micros(10);

class Bodies final : public Application {
 public:
  std::function<void()> body;
  void handle(Request& request) override {
    body();
    request.reply->append("+OK\r\n");
  }
};

struct Serving {
  const char* policy;
  Nanos quantum;  // zero = the policy's own
  uint32_t requests;
};

RuntimeOptions options_for(const Place& place, const Serving& serving) {
  RuntimeOptions options;
  options.policy = serving.policy;
  options.classify = Classify::kFeedback;
  options.idle = Idle::kSpin;
  options.pin = place.two();
  options.pin_first = 1;
  options.slow_threshold = Nanos::max();
  if (serving.quantum > Nanos()) {
    options.policy_settings["quantum"] = std::to_string(serving.quantum.count()) + "ns";
  }
  return options;
}

// Runs `body` in each of the requests, which are there from the start, and replied() as the reply
// leaves; then after(runtime), which has stopped.
Status serve(const Place& place, const Serving& serving, const std::function<void()>& body,
             const std::function<void(const Runtime&)>& after = nullptr,
             const std::function<void()>& replied = nullptr) {
  spin::SpinServer protocol(spin::SpinOptions{});
  Bodies application;
  application.body = body;
  uint32_t left = serving.requests;
  std::unique_ptr<Runtime> runtime;
  LoopbackOptions loopback;
  loopback.on_reply = [&](uint64_t, std::string_view) {
    if (replied) replied();
    if (--left == 0) runtime->stop();
  };
  LoopbackDatapath datapath(loopback, protocol);
  for (uint32_t i = 0; i < serving.requests; ++i) {
    RUBATO_CHECK(datapath.submit(datapath.connect(), kRequest));
  }
  auto made = Runtime::create(options_for(place, serving), datapath, application);
  if (!made.ok()) return Error{made.error()};
  runtime = std::move(*made);
  runtime->run();
  if (after) after(*runtime);
  runtime.reset();
  return Done{};
}

// Batches of checkpoints each of which finds its slice over.
class SliceEnds {
 public:
  explicit SliceEnds(const Meter& meter) : meter_(meter), collector_(meter), pauses_(meter) {}

  // With two of these requests, a checkpoint of one returns in the other, which goes on with the
  // same batch: all of it happens on one worker.
  void run() {
    while (collector_.more() && !done_) {
      const Instant over = now() + kShortSlice * 2;
      while (now() < over) {}
      from_ = Meter::stamp();
      if (count_ > 0) pause_ns_ += meter_.elapsed_ns(to_, from_) + 2 * meter_.stamp_ns();
      checkpoint();
      to_ = Meter::stamp();
      sum_ns_ += meter_.elapsed_ns(from_, to_);
      if (++count_ < kBatch) continue;
      collector_.add(sum_ns_ / kBatch, kBatch);
      pauses_.add(pause_ns_ / (kBatch - 1), kBatch);
      sum_ns_ = 0;
      pause_ns_ = 0;
      count_ = 0;
    }
    done_ = true;
  }
  Sample sample() { return collector_.sample(); }
  Sample pause() { return pauses_.sample(); }  // between two of a batch, with what stamps take

 private:
  const Meter& meter_;
  Collector collector_;
  Collector pauses_;
  uint64_t from_ = 0;
  uint64_t to_ = 0;
  double sum_ns_ = 0;
  double pause_ns_ = 0;
  uint32_t count_ = 0;
  bool done_ = false;
};

// From where a checkpoint sees that its slice is over to the reading that the next one counts from:
// what is left of the way from one end to the next without the slice, and what it was late.
Sample way_to_next(const Sample& end, const Sample& pause, const Runtime& runtime) {
  const double late = static_cast<double>(runtime.overrun().percentile(50).count());
  return end.less(static_cast<double>(kShortSlice.count()) + late - pause.median_ns);
}

// `begins`, which may be null, is only of one request.
Status measure_ends(const Meter& meter, const Place& place, uint32_t requests, Sample& sample,
                    Sample* begins) {
  SliceEnds ends(meter);
  return serve(place, {"ps", kShortSlice, requests}, [&] { ends.run(); },
               [&](const Runtime& runtime) {
                 sample = ends.sample();
                 if (begins != nullptr) *begins = way_to_next(sample, ends.pause(), runtime);
               });
}

// Requests that wait from the start are begun one after the other, each where the one before it is
// cut, and go on when all have begun, the first after that cut, each other one after a reply.
Status measure_cuts(const Meter& meter, const Place& place, Samples& samples) {
  constexpr uint32_t kRequests = 256;
  Collector cuts(meter), resumes(meter);
  while (cuts.more()) {
    uint64_t cut = 0;  // the moment of one, until the next request begins
    uint64_t reply = 0;
    const auto body = [&] {
      if (cut != 0) cuts.add(meter.elapsed_ns(cut, Meter::stamp()), 1);
      const Instant over = now() + kShortSlice * 2;
      while (now() < over) {}
      cut = Meter::stamp();
      checkpoint();
      if (reply != 0) resumes.add(meter.elapsed_ns(reply, Meter::stamp()), 1);
      cut = 0;
    };
    const Status served = serve(place, {"ps", kShortSlice, kRequests}, body, nullptr,
                                [&] { reply = Meter::stamp(); });
    if (!served.ok()) return served;
  }
  samples[Operation::kCut] = cuts.sample();
  samples[Operation::kReplyResume] = resumes.sample();
  return Done{};
}

Status measure_overshoot(const Meter& meter, const Place& place, Sample& sample) {
  const auto long_request = [&] {
    const Instant until = now() + meter.each();
    while (now() < until && !meter.stopped()) spin::busy_work(kUsualSlice * 10);
  };
  return serve(place, {"ps", kUsualSlice, 1}, long_request, [&](const Runtime& runtime) {
    const Histogram overrun = runtime.overrun();
    const uint64_t kept = overrun.count_at_most(kStall);
    if (kept == 0) return;
    const double share = static_cast<double>(kept) / static_cast<double>(overrun.count());
    sample = {.median_ns = static_cast<double>(overrun.percentile(50 * share).count()),
              .tail_ns = static_cast<double>(overrun.percentile(99.9 * share).count()),
              .batches = kept,
              .stalls = overrun.count() - kept};
  });
}

void begin_and_end_long() {
  for (uint32_t i = 0; i < kBatch; ++i) {
    current_request()->job_class = JobClass::kShort;
    long_begin();
    long_end();
  }
}

Status measure_feedback(const Meter& meter, const Place& place, Sample& sample) {
  return serve(place, {"synergy", Nanos(), 1},
               [&] { sample = meter.measure(kBatch, [] {}, begin_and_end_long); });
}

// Checkpoints at each of which the worker looks, and the slice goes on, less what makes it look.
Status measure_check(const Meter& meter, const Place& place, Sample& sample) {
  return serve(place, {"ps", Nanos::millis(1), 1}, [&] {
    const auto repeat = [&meter](auto&& body) {
      return meter.measure(kBatch, [] {}, [&] {
        for (uint32_t i = 0; i < kBatch; ++i) body();
      });
    };
    const Sample look = repeat([] {
      checkpoint_budget_set(0);
      checkpoint();
    });
    sample = look.less(repeat([] { checkpoint_budget_set(0); }).median_ns);
  });
}

Sample measure_arm(const Meter& meter) {
  SliceClock clock(SliceWatch::kSelf);
  clock.attach();
  constexpr uint32_t kManyStarts = 16 * kBatch;
  const Sample sample = meter.measure(
      kManyStarts, [] {},
      [&] {
        for (uint32_t i = 0; i < kManyStarts; ++i) {
          clock.start(Instant(int64_t{i}), kUsualSlice, Job(), Nanos());
          // Else the compiler sees that only the last start matters.
          std::atomic_signal_fence(std::memory_order_seq_cst);
        }
      });
  clock.stop();
  return sample;
}

}  // namespace

Status measure_slices(const Meter& meter, const Place& place, Samples& samples) {
  samples[Operation::kArm] = measure_arm(meter);
  if (Status s = measure_feedback(meter, place, samples[Operation::kFeedback]); !s.ok()) return s;
  if (Status s = measure_check(meter, place, samples[Operation::kCheck]); !s.ok()) return s;
  if (Status s = measure_ends(meter, place, 1, samples[Operation::kSliceEnd],
                              &samples[Operation::kSliceBegins]);
      !s.ok()) {
    return s;
  }
  if (Status s = measure_ends(meter, place, 2, samples[Operation::kPreemption], nullptr); !s.ok()) {
    return s;
  }
  if (Status s = measure_cuts(meter, place, samples); !s.ok()) return s;
  return measure_overshoot(meter, place, samples[Operation::kOvershoot]);
}

}  // namespace rubato::calibrate
