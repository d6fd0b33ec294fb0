// SPDX-License-Identifier: Apache-2.0
//
// Nothing is allocated per simulated request: a run of twice the length allocates as often.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <string_view>

#include "policy/all.h"
#include "sim/testing/runs.h"

namespace {
std::atomic<uint64_t> allocations{0};  // relaxed: the test has one thread

void* allocate(std::size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  void* const memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
}  // namespace

void* operator new(std::size_t size) { return allocate(size); }
void* operator new[](std::size_t size) { return allocate(size); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

namespace rubato::sim {
namespace {

uint64_t allocations_of(std::string_view policy, sim::Setup setup, uint64_t requests) {
  setup.requests = requests;
  setup.warmup = 0;
  const uint64_t before = allocations.load(std::memory_order_relaxed);
  RUBATO_CHECK(simulate(policy, {}, setup).ok());
  return allocations.load(std::memory_order_relaxed) - before;
}

// The first part of the longer run is the shorter one, so that what the longer one has more is of
// its second part. Queues may still grow a little there, in steps of a factor of two.
TEST(Simulation, allocates_nothing_per_request) {
  constexpr uint64_t kRequests = 60'000;
  constexpr uint64_t kStillGrowing = 20;
  for (const Delivery delivery : {Delivery::kDirect, Delivery::kPolled}) {
    sim::Setup setup = ideal(16, "zippydb", 0.7, kRequests);
    setup.costs.nic.delivery = delivery;
    for_each_policy([&]<class P>(std::type_identity<P>) {
      SCOPED_TRACE(P::kName);
      const uint64_t once = allocations_of(P::kName, setup, kRequests);
      const uint64_t twice = allocations_of(P::kName, setup, 2 * kRequests);
      EXPECT_LE(twice, once + kStillGrowing);
      EXPECT_LT(once, 2'000u);
    });
  }
}

}  // namespace
}  // namespace rubato::sim
