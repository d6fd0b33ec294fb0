// SPDX-License-Identifier: Apache-2.0
//
// A reference of mechanism_queue_bench: DPDK's rte_ring, made in our own memory, without its
// environment layer being started.
#include <benchmark/benchmark.h>
#include <rte_ring.h>

#include <array>
#include <cstdlib>

#include "base/check.h"
#include "bench_support.h"

namespace rubato::bench {
namespace {

constexpr unsigned kCapacity = 1024;
constexpr unsigned kBatch = 8;

class Ring {
 public:
  explicit Ring(unsigned flags) {
    const auto size = static_cast<size_t>(rte_ring_get_memsize(kCapacity));
    ring_ = static_cast<rte_ring*>(std::aligned_alloc(RTE_CACHE_LINE_SIZE, size));
    RUBATO_CHECK(ring_ != nullptr);
    RUBATO_CHECK(rte_ring_init(ring_, "bench", kCapacity, flags) == 0);
  }
  ~Ring() { std::free(ring_); }
  Ring(const Ring&) = delete;
  rte_ring* get() { return ring_; }

 private:
  rte_ring* ring_ = nullptr;
};

void reference_rte_ring_put_take(::benchmark::State& state, unsigned flags) {
  Ring ring(flags);
  int target = 0;
  void* item = &target;
  for (auto _ : state) {
    ::benchmark::DoNotOptimize(rte_ring_enqueue(ring.get(), item));
    ::benchmark::DoNotOptimize(rte_ring_dequeue(ring.get(), &item));
  }
  report_each(state, "item", 1);
}

void reference_rte_ring_batch_of_8(::benchmark::State& state, unsigned flags) {
  Ring ring(flags);
  int target = 0;
  std::array<void*, kBatch> in;
  std::array<void*, kBatch> out;
  in.fill(&target);
  for (auto _ : state) {
    ::benchmark::DoNotOptimize(rte_ring_enqueue_burst(ring.get(), in.data(), kBatch, nullptr));
    ::benchmark::DoNotOptimize(rte_ring_dequeue_burst(ring.get(), out.data(), kBatch, nullptr));
    ::benchmark::DoNotOptimize(out);
  }
  report_each(state, "item", kBatch);
}

constexpr unsigned kMpmc = 0;
constexpr unsigned kSpmc = RING_F_SP_ENQ;
constexpr unsigned kSpsc = RING_F_SP_ENQ | RING_F_SC_DEQ;

BENCHMARK_CAPTURE(reference_rte_ring_put_take, mpmc, kMpmc)->Apply(fixed_iterations);
BENCHMARK_CAPTURE(reference_rte_ring_put_take, spmc, kSpmc)->Apply(fixed_iterations);
BENCHMARK_CAPTURE(reference_rte_ring_put_take, spsc, kSpsc)->Apply(fixed_iterations);
BENCHMARK_CAPTURE(reference_rte_ring_batch_of_8, mpmc, kMpmc)->Apply(fixed_iterations);
BENCHMARK_CAPTURE(reference_rte_ring_batch_of_8, spmc, kSpmc)->Apply(fixed_iterations);
BENCHMARK_CAPTURE(reference_rte_ring_batch_of_8, spsc, kSpsc)->Apply(fixed_iterations);

}  // namespace
}  // namespace rubato::bench
