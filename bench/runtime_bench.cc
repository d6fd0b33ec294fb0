// SPDX-License-Identifier: Apache-2.0
//
// What the live runtime adds to a request, in the terms of the thesis: a checkpoint that is not
// taken, the feedback calls, the path of a short request, a preemption with its return through the
// wait queue. Everything runs on one real worker; wall time, so read ratios of one run.
#include <benchmark/benchmark.h>

#include <array>

#include "endless_datapath.h"
#include "policy/synergy.h"
#include "runtime/live_host.h"
#include "runtime/runtime.h"

namespace rubato::bench {
namespace {

class Handler final : public Application {
 public:
  std::function<void(Request&)> body = [](Request&) {};
  void handle(Request& request) override { body(request); }
};

RuntimeOptions options_for(const std::string& policy, Classify classify) {
  RuntimeOptions options;
  options.policy = policy;
  options.classify = classify;
  options.idle = Idle::kSpin;
  options.slow_threshold = Nanos::max();
  return options;
}

// Runs `body` once, as a request on a worker.
void inside_a_request(Classify classify, const std::function<void()>& body) {
  EndlessDatapath datapath(1);
  datapath.stop_after = 1;
  Handler handler;
  handler.body = [&](Request&) { body(); };
  auto runtime = Runtime::create(options_for("synergy", classify), datapath, handler);
  datapath.on_done = [&] { (*runtime)->stop(); };
  (*runtime)->run();
}

void checkpoint_not_taken(::benchmark::State& state) {
  inside_a_request(Classify::kFeedback, [&] {
    for (auto _ : state) checkpoint();
  });
}
BENCHMARK(checkpoint_not_taken)->UseRealTime();

// In a long request nobody waits behind: includes the looks at the clock and the ends of slices.
void checkpoint_in_long_request(::benchmark::State& state) {
  inside_a_request(Classify::kFeedback, [&] {
    long_begin();
    for (auto _ : state) checkpoint();
    long_end();
  });
}
BENCHMARK(checkpoint_in_long_request)->UseRealTime();

void long_begin_and_end(::benchmark::State& state) {
  inside_a_request(Classify::kFeedback, [&] {
    for (auto _ : state) {
      current_request()->job_class = JobClass::kShort;
      long_begin();
      long_end();
    }
  });
}
BENCHMARK(long_begin_and_end)->UseRealTime();

// The policy's share of that: put into the inbox, next, finished.
void put_next_finished(::benchmark::State& state) {
  using Queues = QueueSet<Synergy>;
  const Synergy policy{Synergy::Config{}};
  Queues queues(policy, 1, limits::kInboxCapacity, limits::kSharedCapacity);
  PlanCell<Synergy::Plan> cell;
  const std::vector<const WorkerStats*> stats;
  SharedState shared_state(1, 0, nullptr);
  LiveHost<Synergy> host(queues, cell, hook::initial_plan(policy), 1, stats, shared_state,
                         sched::Draws(1, 0));
  Synergy::Worker worker;
  Job job;
  for (auto _ : state) {
    host.put(hook::route(policy, job, WorkerId{0}, host), &job);
    Job* next = hook::next(policy, worker, WorkerId{0}, host);
    ::benchmark::DoNotOptimize(next);
    hook::finished(policy, worker, *next, Nanos(800));
  }
}
BENCHMARK(put_next_finished);

// Two workers' inboxes: eight requests in, the second worker steals four and takes them.
void steal_a_batch(::benchmark::State& state) {
  const Synergy policy{Synergy::Config{}};
  QueueSet<Synergy> queues(policy, 2, limits::kInboxCapacity, limits::kSharedCapacity);
  PlanCell<Synergy::Plan> cell;
  const std::vector<const WorkerStats*> stats;
  SharedState shared_state(2, 0, nullptr);
  LiveHost<Synergy> host(queues, cell, hook::initial_plan(policy), 2, stats, shared_state,
                         sched::Draws(1, 0));
  Synergy::Worker worker;
  std::array<Job, 16> jobs;
  for (Job& job : jobs) host.put({0, 0}, &job);
  for (auto _ : state) {
    // The thief takes half of sixteen, and gives them back so that the next round finds them.
    for (int i = 0; i < 8; ++i) {
      Job* job = hook::next(policy, worker, WorkerId{1}, host);
      host.put({0, 0}, job);
    }
  }
}
BENCHMARK(steal_a_batch);

// Put, next, begin, finished and all counting of one short request, without a datapath's work.
// `recorded`: its arrival is counted for a profile too.
void short_request(::benchmark::State& state, const char* policy, bool recorded) {
  for (auto _ : state) {
    constexpr uint64_t kRequests = 1'000'000;
    EndlessDatapath datapath(limits::kBurst);
    datapath.stop_after = kRequests;
    Handler handler;
    RuntimeOptions options = options_for(policy, Classify::kAge);
    options.record_arrivals = recorded;
    auto runtime = Runtime::create(options, datapath, handler);
    datapath.on_done = [&] { (*runtime)->stop(); };
    const Instant start = now();
    (*runtime)->run();
    state.SetIterationTime((now() - start).seconds());
    state.counters["ns_per_request"] =
        static_cast<double>((now() - start).count()) / static_cast<double>(kRequests);
  }
}
BENCHMARK_CAPTURE(short_request, fcfs, "fcfs", false)->UseManualTime();
BENCHMARK_CAPTURE(short_request, synergy, "synergy", false)->UseManualTime();
BENCHMARK_CAPTURE(short_request, synergy_recorded, "synergy", true)->UseManualTime();

// Two requests that preempt each other at every checkpoint that finds the slice over: switch out,
// publish, take, switch in. The quantum is the shortest, so the time is that of the mechanism.
void preempt_and_resume(::benchmark::State& state) {
  for (auto _ : state) {
    constexpr uint64_t kRounds = 200'000;
    EndlessDatapath datapath(2);
    datapath.stop_after = 2;
    Handler handler;
    std::unique_ptr<Runtime> runtime;
    handler.body = [&](Request& request) {
      while (request.preemptions < kRounds) checkpoint();
    };
    RuntimeOptions options = options_for("ps", Classify::kFeedback);
    options.policy_settings["quantum"] = "100ns";
    auto made = Runtime::create(options, datapath, handler);
    if (!made.ok()) return state.SkipWithError(made.error().c_str());
    runtime = std::move(*made);
    datapath.on_done = [&] { runtime->stop(); };
    const Instant start = now();
    runtime->run();
    const Nanos took = now() - start;
    state.SetIterationTime(took.seconds());
    const auto rounds = static_cast<double>(runtime->stats().preemptions);
    state.counters["ns_per_preemption"] = static_cast<double>(took.count()) / rounds;
  }
}
BENCHMARK(preempt_and_resume)->UseManualTime();

}  // namespace
}  // namespace rubato::bench

BENCHMARK_MAIN();
