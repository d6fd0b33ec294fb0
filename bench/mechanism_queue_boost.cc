// SPDX-License-Identifier: Apache-2.0
//
// A reference of mechanism_queue_bench: boost::lockfree, bounded, with run-time capacity as ours.
#include <benchmark/benchmark.h>

#include <boost/lockfree/queue.hpp>
#include <boost/lockfree/spsc_queue.hpp>

#include "bench_support.h"

namespace rubato::bench {
namespace {

constexpr size_t kCapacity = 1024;

template <class Queue>
void reference_boost_put_take(::benchmark::State& state) {
  Queue queue(kCapacity);
  int target = 0;
  int* item = &target;
  for (auto _ : state) {
    ::benchmark::DoNotOptimize(queue.push(item));
    ::benchmark::DoNotOptimize(queue.pop(item));
  }
}

using Mpmc = boost::lockfree::queue<int*, boost::lockfree::fixed_sized<true>>;
using Spsc = boost::lockfree::spsc_queue<int*>;

BENCHMARK_TEMPLATE(reference_boost_put_take, Mpmc)->Apply(fixed_iterations);
BENCHMARK_TEMPLATE(reference_boost_put_take, Spsc)->Apply(fixed_iterations);

}  // namespace
}  // namespace rubato::bench
