// SPDX-License-Identifier: Apache-2.0
//
// What all benchmark programs share: a fixed number of iterations where bench/instructions.py asks
// for it, and the time of one operation where an iteration does several.
#pragma once

#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstdlib>

namespace rubato::bench {

// BENCHMARK(x)->Apply(fixed_iterations) obeys RUBATO_BENCH_ITERATIONS if it is set.
inline void fixed_iterations(::benchmark::internal::Benchmark* benchmark) {
  const char* text = std::getenv("RUBATO_BENCH_ITERATIONS");
  if (text != nullptr) benchmark->Iterations(std::strtoll(text, nullptr, 10));
}

// Adds a counter: the time of one of the `per_iteration` operations of an iteration. To be called
// after the loop.
inline void report_each(::benchmark::State& state, const char* name, int64_t per_iteration) {
  using ::benchmark::Counter;
  state.counters[name] = Counter(static_cast<double>(state.iterations() * per_iteration),
                                 Counter::kIsRate | Counter::kInvert);
}

}  // namespace rubato::bench
