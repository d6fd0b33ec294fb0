// SPDX-License-Identifier: Apache-2.0
//
// What the queues cost without contention, and a round trip between two threads. References are
// added to this program by mechanism_queue_dpdk.cc (rte_ring) and mechanism_queue_boost.cc
// (boost::lockfree), whichever can be built. An iteration puts and takes one item, or one batch of
// eight; the counter `item` is the time of one item. Alternate as mechanism_switch_bench says.
#include <benchmark/benchmark.h>

#include <array>
#include <atomic>
#include <thread>

#include "bench_support.h"
#include "mechanism/cpu/pause.h"
#include "mechanism/queue/local_queue.h"
#include "mechanism/queue/mpmc_queue.h"
#include "mechanism/queue/spsc_queue.h"
#include "mechanism/queue/steal_queue.h"

namespace rubato::bench {
namespace {

constexpr uint32_t kCapacity = 1024;
constexpr size_t kBatch = 8;
constexpr int kSpinsBeforeYield = 200;

template <class Queue>
void put_take(::benchmark::State& state) {
  Queue queue(kCapacity);
  int target = 0;
  int* item = &target;
  for (auto _ : state) {
    ::benchmark::DoNotOptimize(queue.put(item));
    ::benchmark::DoNotOptimize(queue.take(item));
  }
  report_each(state, "item", 1);
}
BENCHMARK_TEMPLATE(put_take, LocalQueue<int*>)->Apply(fixed_iterations);
BENCHMARK_TEMPLATE(put_take, StealQueue<int*>)->Apply(fixed_iterations);
BENCHMARK_TEMPLATE(put_take, SpscQueue<int*>)->Apply(fixed_iterations);
BENCHMARK_TEMPLATE(put_take, MpmcQueue<int*>)->Apply(fixed_iterations);

template <class Queue>
void batch_of_8(::benchmark::State& state) {
  Queue queue(kCapacity);
  int target = 0;
  std::array<int*, kBatch> in;
  std::array<int*, kBatch> out;
  in.fill(&target);
  for (auto _ : state) {
    ::benchmark::DoNotOptimize(queue.put_batch(in));
    if constexpr (requires { queue.steal(out); }) {
      ::benchmark::DoNotOptimize(queue.steal(out));
    } else {
      ::benchmark::DoNotOptimize(queue.take_batch(out));
    }
    ::benchmark::DoNotOptimize(out);
  }
  report_each(state, "item", kBatch);
}
BENCHMARK_TEMPLATE(batch_of_8, LocalQueue<int*>)->Apply(fixed_iterations);
BENCHMARK_TEMPLATE(batch_of_8, StealQueue<int*>)->Apply(fixed_iterations);
BENCHMARK_TEMPLATE(batch_of_8, SpscQueue<int*>)->Apply(fixed_iterations);
BENCHMARK_TEMPLATE(batch_of_8, MpmcQueue<int*>)->Apply(fixed_iterations);

// The steal alone: the queue is filled again in bulk, whose cost batch_of_8 tells.
void steal_8_of_full(::benchmark::State& state) {
  StealQueue<int*> queue(kCapacity);
  int target = 0;
  std::array<int*, kCapacity> fill;
  std::array<int*, kBatch> out;
  fill.fill(&target);
  for (auto _ : state) {
    if (queue.steal(out) == 0) queue.put_batch(fill);
    ::benchmark::DoNotOptimize(out);
  }
  report_each(state, "item", kBatch);
}
BENCHMARK(steal_8_of_full)->Apply(fixed_iterations);

template <class Queue>
void pass_on(Queue& queue, int* item) {
  for (int spins = 0; !queue.put(item); ++spins) {
    spins < kSpinsBeforeYield ? cpu_pause() : std::this_thread::yield();
  }
}

template <class Queue>
int* wait_for(Queue& queue) {
  int* item = nullptr;
  for (int spins = 0; !queue.take(item); ++spins) {
    spins < kSpinsBeforeYield ? cpu_pause() : std::this_thread::yield();
  }
  return item;
}

// To another thread and back through two queues. Wall time; mostly the machine's own figure for
// moving two cache lines between cores.
template <class Queue>
void round_trip_between_threads(::benchmark::State& state) {
  Queue there(kCapacity);
  Queue back(kCapacity);
  int target = 0;
  std::thread echo([&] {
    while (int* item = wait_for(there)) pass_on(back, item);
  });
  for (auto _ : state) {
    pass_on(there, &target);
    ::benchmark::DoNotOptimize(wait_for(back));
  }
  pass_on(there, static_cast<int*>(nullptr));
  echo.join();
  report_each(state, "item", 1);
}
BENCHMARK_TEMPLATE(round_trip_between_threads, SpscQueue<int*>)
    ->Apply(fixed_iterations)
    ->UseRealTime();
BENCHMARK_TEMPLATE(round_trip_between_threads, MpmcQueue<int*>)
    ->Apply(fixed_iterations)
    ->UseRealTime();

}  // namespace
}  // namespace rubato::bench
