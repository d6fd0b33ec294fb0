// SPDX-License-Identifier: Apache-2.0
//
// How many requests a second the simulator simulates on one core, with all statistics of a run: an
// iteration is a request. bench/against_simulators.py puts others beside it, and
// bench/instructions.py counts instructions per request.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <string>
#include <utility>

#include "base/check.h"
#include "bench_support.h"
#include "naive_sim.h"
#include "sim/simulation.h"

namespace rubato::sim {
namespace {

Setup setup_of(uint32_t workers, const char* workload, double load) {
  Result<Mix> mix = parse_mix(workload);
  RUBATO_CHECK(mix.ok());
  Setup setup;
  setup.workers = workers;
  setup.classify = Classify::kFeedback;
  setup.workload.rate = load * workers / mix->mean_service_ns() * 1e9;
  setup.workload.mixes.push_back(std::move(*mix));
  return setup;
}

void simulate_all(benchmark::State& state, const char* policy, Setup setup) {
  setup.requests = static_cast<uint64_t>(state.max_iterations);
  uint64_t events = 0;
  while (state.KeepRunningBatch(state.max_iterations)) {
    Result<Outcome> outcome = simulate(policy, {}, setup);
    RUBATO_CHECK(outcome.ok());
    events = outcome->events;
  }
  state.SetItemsProcessed(state.iterations());
  state.counters["events"] = static_cast<double>(events) / static_cast<double>(setup.requests);
}

void cfcfs_16_extreme_bimodal_60(benchmark::State& state) {
  simulate_all(state, "cfcfs", setup_of(16, "extreme-bimodal", 0.6));
}
void synergy_14_extreme_bimodal_80(benchmark::State& state) {
  simulate_all(state, "synergy", setup_of(14, "extreme-bimodal", 0.8));
}
void steal_16_exp_1_80(benchmark::State& state) {
  simulate_all(state, "steal", setup_of(16, "exp-1", 0.8));
}
void cfcfs_256_fixed_850ns_80(benchmark::State& state) {
  simulate_all(state, "cfcfs", setup_of(256, "fixed-850ns", 0.8));
}
void synergy_256_fixed_850ns_80(benchmark::State& state) {
  simulate_all(state, "synergy", setup_of(256, "fixed-850ns", 0.8));
}

// The same work on the floor, by the naive simulator, and here: exponential services of 1 us on 16
// workers at load 0.8. bench/sim_ratios.py compares them.
void floor_16_exp_1_80(benchmark::State& state) {
  bench::NaiveWork work;
  work.requests = static_cast<uint64_t>(state.max_iterations);
  while (state.KeepRunningBatch(state.max_iterations)) {
    benchmark::DoNotOptimize(bench::simulate_floor(work));
  }
  state.SetItemsProcessed(state.iterations());
}

void naive_16_exp_1_80(benchmark::State& state, bench::NaivePolicy policy) {
  bench::NaiveWork work;
  work.requests = static_cast<uint64_t>(state.max_iterations);
  while (state.KeepRunningBatch(state.max_iterations)) {
    benchmark::DoNotOptimize(bench::simulate_naively(policy, work));
  }
  state.SetItemsProcessed(state.iterations());
}

void rubato_16_exp_1_80(benchmark::State& state, const char* policy) {
  simulate_all(state, policy, setup_of(16, "exp-1", 0.8));
}

// What a request costs as a run grows in one respect; bench/sim_ratios.py --scale compares them.
void scale_workers(benchmark::State& state, const char* policy) {
  simulate_all(state, policy, setup_of(static_cast<uint32_t>(state.range(0)), "exp-1", 0.8));
}
void scale_types(benchmark::State& state, const char* policy) {
  std::string mix;
  for (int64_t type = 0; type < state.range(0); ++type) {
    mix += (type == 0 ? "t" : ",t") + std::to_string(type) + ":exp(1us):1";
  }
  simulate_all(state, policy, setup_of(16, mix.c_str(), 0.8));
}
// Of a NIC that hashes flows.
void scale_flows(benchmark::State& state, const char* policy) {
  Setup setup = setup_of(16, "exp-1", 0.8);
  setup.costs.nic.steering = Steering::kRss;
  setup.workload.flows.count = static_cast<uint32_t>(state.range(0));
  simulate_all(state, policy, std::move(setup));
}
void scale_sessions(benchmark::State& state, const char* policy) {
  Setup setup = setup_of(16, "exp-1", 0.8);
  setup.elastic.emplace();
  setup.elastic->clients.sessions = static_cast<uint32_t>(state.range(0));
  setup.workload.flows.count = setup.elastic->clients.sessions;
  simulate_all(state, policy, std::move(setup));
}

using bench::fixed_iterations;
using bench::NaivePolicy;
BENCHMARK(floor_16_exp_1_80)->Apply(fixed_iterations);
BENCHMARK_CAPTURE(naive_16_exp_1_80, cfcfs, NaivePolicy::kCfcfs)->Apply(fixed_iterations);
BENCHMARK_CAPTURE(naive_16_exp_1_80, fcfs, NaivePolicy::kDfcfs)->Apply(fixed_iterations);
BENCHMARK_CAPTURE(naive_16_exp_1_80, ps, NaivePolicy::kPs)->Apply(fixed_iterations);
BENCHMARK_CAPTURE(naive_16_exp_1_80, jbsq, NaivePolicy::kJbsq)->Apply(fixed_iterations);
BENCHMARK_CAPTURE(naive_16_exp_1_80, steal, NaivePolicy::kSteal)->Apply(fixed_iterations);
BENCHMARK_CAPTURE(rubato_16_exp_1_80, cfcfs, "cfcfs")->Apply(fixed_iterations);
BENCHMARK_CAPTURE(rubato_16_exp_1_80, fcfs, "fcfs")->Apply(fixed_iterations);
BENCHMARK_CAPTURE(rubato_16_exp_1_80, ps, "ps")->Apply(fixed_iterations);
BENCHMARK_CAPTURE(rubato_16_exp_1_80, jbsq, "jbsq")->Apply(fixed_iterations);
BENCHMARK_CAPTURE(rubato_16_exp_1_80, steal, "steal")->Apply(fixed_iterations);
BENCHMARK_CAPTURE(scale_workers, cfcfs, "cfcfs")->Arg(16)->Arg(4096)->Apply(fixed_iterations);
BENCHMARK_CAPTURE(scale_workers, jbsq, "jbsq")->Arg(16)->Arg(4096)->Apply(fixed_iterations);
BENCHMARK_CAPTURE(scale_workers, synergy, "synergy")->Arg(16)->Arg(4096)->Apply(fixed_iterations);
BENCHMARK_CAPTURE(scale_types, cfcfs, "cfcfs")->Arg(1)->Arg(256)->Apply(fixed_iterations);
BENCHMARK_CAPTURE(scale_types, darc, "darc")->Arg(1)->Arg(256)->Apply(fixed_iterations);
BENCHMARK_CAPTURE(scale_flows, cfcfs, "cfcfs")->Arg(512)->Arg(1'000'000)->Apply(fixed_iterations);
BENCHMARK_CAPTURE(scale_sessions, cfcfs, "cfcfs")->Arg(10)->Arg(100'000)->Apply(fixed_iterations);
BENCHMARK(cfcfs_16_extreme_bimodal_60)->Apply(fixed_iterations);
BENCHMARK(synergy_14_extreme_bimodal_80)->Apply(fixed_iterations);
BENCHMARK(steal_16_exp_1_80)->Apply(fixed_iterations);
BENCHMARK(cfcfs_256_fixed_850ns_80)->Apply(fixed_iterations);
BENCHMARK(synergy_256_fixed_850ns_80)->Apply(fixed_iterations);

}  // namespace
}  // namespace rubato::sim
