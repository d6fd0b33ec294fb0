// SPDX-License-Identifier: Apache-2.0
//
// What it costs to go from one fiber to another and back. One iteration is two switches; the
// counter `switch` is the time of one. mechanism_switch_boost.cc adds Boost.Context's fcontext to
// this program as the reference. For ratios, alternate within one run:
//   mechanism_switch_bench --benchmark_repetitions=21 --benchmark_enable_random_interleaving=true
//                          --benchmark_report_aggregates_only=true --benchmark_min_time=0.05
#include <benchmark/benchmark.h>
#include <ucontext.h>

#include <vector>

#include "bench_support.h"
#include "mechanism/clock/clock.h"
#include "mechanism/fiber/fiber.h"

namespace rubato::bench {
namespace {

struct ContextPair {
  Context here;
  Context there;
};

void bounce_context(void* argument) {
  auto& pair = *static_cast<ContextPair*>(argument);
  for (;;) rubato_context_switch(&pair.there, &pair.here);
}

// The bare switch: what Boost's fcontext is to be compared with.
void context_switch(::benchmark::State& state) {
  StackPool pool;
  Stack* stack = pool.take();
  ContextPair pair;
  context_make(pair.there, stack->low, stack->size_bytes, &bounce_context, &pair);
  for (auto _ : state) rubato_context_switch(&pair.here, &pair.there);
  report_each(state, "switch", 2);
  pool.give(stack);
}
BENCHMARK(context_switch)->Apply(fixed_iterations);

struct FiberPair {
  Fiber thread;
  Fiber fiber;
};

void bounce_fiber(void* argument) {
  auto& pair = *static_cast<FiberPair*>(argument);
  fiber_entered(pair.fiber);
  for (;;) fiber_switch(pair.fiber, pair.thread);
}

// What the runtime uses: the switch and the C++ exception state.
void fiber_switch_there_and_back(::benchmark::State& state) {
  StackPool pool;
  FiberPair pair;
  fiber_adopt_thread(pair.thread);
  fiber_start(pair.fiber, pool.take(), &bounce_fiber, &pair);
  for (auto _ : state) fiber_switch(pair.thread, pair.fiber);
  report_each(state, "switch", 2);
  pool.give(pair.fiber.stack);
  fiber_finish(pair.fiber);
}
BENCHMARK(fiber_switch_there_and_back)->Apply(fixed_iterations);

// Every switch goes to another of 64 fibers, so that their lines and stack tops compete for cache.
void fiber_switch_among_64(::benchmark::State& state) {
  constexpr size_t kFibers = 64;
  StackPool pool;
  std::vector<FiberPair> pairs(kFibers);
  for (FiberPair& pair : pairs) {
    fiber_adopt_thread(pair.thread);
    fiber_start(pair.fiber, pool.take(), &bounce_fiber, &pair);
  }
  size_t next = 0;
  for (auto _ : state) {
    fiber_switch(pairs[next].thread, pairs[next].fiber);
    next = (next + 1) % kFibers;
  }
  report_each(state, "switch", 2);
  for (FiberPair& pair : pairs) {
    pool.give(pair.fiber.stack);
    fiber_finish(pair.fiber);
  }
}
BENCHMARK(fiber_switch_among_64)->Apply(fixed_iterations);

void end_at_once(void* argument) {
  auto& pair = *static_cast<FiberPair*>(argument);
  fiber_entered(pair.fiber);
  fiber_switch_final(pair.fiber, pair.thread);
}

// A whole life: take a stack, start, run, end, give the stack back.
void fiber_life(::benchmark::State& state) {
  StackPool pool;
  StackCache cache(pool);
  FiberPair pair;
  fiber_adopt_thread(pair.thread);
  for (auto _ : state) {
    fiber_start(pair.fiber, cache.take(), &end_at_once, &pair);
    fiber_switch(pair.thread, pair.fiber);
    cache.give(pair.fiber.stack);
  }
  fiber_finish(pair.fiber);
}
BENCHMARK(fiber_life)->Apply(fixed_iterations);

struct UcontextPair {
  ucontext_t here;
  ucontext_t there;
} g_ucontexts;

void bounce_ucontext() {
  for (;;) swapcontext(&g_ucontexts.there, &g_ucontexts.here);
}

void reference_ucontext_switch(::benchmark::State& state) {
  StackPool pool;
  Stack* stack = pool.take();
  getcontext(&g_ucontexts.there);
  g_ucontexts.there.uc_stack.ss_sp = stack->low;
  g_ucontexts.there.uc_stack.ss_size = stack->size_bytes;
  makecontext(&g_ucontexts.there, &bounce_ucontext, 0);
  for (auto _ : state) swapcontext(&g_ucontexts.here, &g_ucontexts.there);
  report_each(state, "switch", 2);
  pool.give(stack);
}
BENCHMARK(reference_ucontext_switch)->Apply(fixed_iterations);

void clock_now(::benchmark::State& state) {
  for (auto _ : state) ::benchmark::DoNotOptimize(now());
}
BENCHMARK(clock_now)->Apply(fixed_iterations);

void reference_clock_gettime(::benchmark::State& state) {
  const Clock kernel = Clock::from_kernel().value();
  for (auto _ : state) ::benchmark::DoNotOptimize(kernel.now());
}
BENCHMARK(reference_clock_gettime)->Apply(fixed_iterations);

}  // namespace
}  // namespace rubato::bench
