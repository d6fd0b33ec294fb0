// SPDX-License-Identifier: Apache-2.0
//
// How many requests a second the simulator simulates on one core, with all statistics of a run: an
// iteration is a request. bench/against_simpy.py puts another simulator beside it, and
// bench/instructions.py counts instructions per request.
#include <benchmark/benchmark.h>

#include "base/check.h"
#include "bench_support.h"
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

using bench::fixed_iterations;
BENCHMARK(cfcfs_16_extreme_bimodal_60)->Apply(fixed_iterations);
BENCHMARK(synergy_14_extreme_bimodal_80)->Apply(fixed_iterations);
BENCHMARK(steal_16_exp_1_80)->Apply(fixed_iterations);
BENCHMARK(cfcfs_256_fixed_850ns_80)->Apply(fixed_iterations);
BENCHMARK(synergy_256_fixed_850ns_80)->Apply(fixed_iterations);

}  // namespace
}  // namespace rubato::sim
