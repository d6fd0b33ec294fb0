// SPDX-License-Identifier: Apache-2.0
#include "mechanism/fiber/stack.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <set>
#include <thread>
#include <vector>

#include "mechanism/fiber/fiber.h"
#include "mechanism/fiber/overflow.h"
#include "mechanism/fiber/sanitizer.h"

namespace rubato {
namespace {

constexpr size_t kStackBytes = 64 * 1024;

TEST(StackPool, hands_out_distinct_writable_stacks_of_the_size_asked_for) {
  StackPool pool(kStackBytes, 40);
  StackCache cache(pool);
  std::set<std::byte*> lows;
  std::vector<Stack*> taken;
  for (int i = 0; i < 40; ++i) {
    Stack* stack = cache.take();
    ASSERT_NE(stack, nullptr);
    EXPECT_GE(stack->size_bytes, kStackBytes - 4096);
    stack->low[0] = std::byte{1};
    stack->low[stack->size_bytes - 1] = std::byte{2};
    EXPECT_TRUE(lows.insert(stack->low).second);
    taken.push_back(stack);
  }
  for (Stack* stack : taken) cache.give(stack);
}

TEST(StackPool, tells_what_is_in_memory_and_gives_back_what_is_not_used) {
  constexpr size_t kDeep = size_t{1} << 20;
  StackPool pool(2 * kDeep, 4);
  EXPECT_EQ(pool.resident_bytes(), 0u);
  Stack* const stack = pool.take();
  ASSERT_NE(stack, nullptr);
  std::byte* const top = stack->low + stack->size_bytes;
  std::fill(top - kDeep, top, std::byte{1});
  EXPECT_GE(pool.resident_bytes(), kDeep);
  std::byte* const used = top - 10'000;
  release_unused(*stack, used);
  EXPECT_LE(pool.resident_bytes(), 10'000u + 3 * 4096);
  EXPECT_GE(pool.resident_bytes(), 10'000u);
  EXPECT_TRUE(std::all_of(used, top, [](std::byte byte) { return byte == std::byte{1}; }));
  EXPECT_EQ(*(top - kDeep), std::byte{0});
  pool.give(stack);
}

TEST(StackPool, refuses_and_counts_beyond_its_capacity) {
  StackPool pool(kStackBytes, 3);
  StackCache cache(pool);
  Stack* stacks[3];
  for (Stack*& stack : stacks) ASSERT_NE(stack = cache.take(), nullptr);
  EXPECT_EQ(cache.take(), nullptr);
  EXPECT_EQ(pool.take(), nullptr);
  EXPECT_EQ(pool.refused(), 2u);
  EXPECT_EQ(pool.in_use(), 3u);
  cache.give(stacks[0]);
  EXPECT_EQ(pool.in_use(), 2u);
  EXPECT_EQ(cache.take(), stacks[0]);
  EXPECT_EQ(pool.in_use_max(), 3u);
  for (Stack* stack : stacks) cache.give(stack);
  EXPECT_EQ(pool.in_use(), 0u);
}

// While it exists the kernel makes no more memory of the process writable.
class NoMoreMemory {
 public:
  NoMoreMemory() {
    getrlimit(RLIMIT_DATA, &before_);
    const rlimit none{1, before_.rlim_max};  // 0 means no limit
    setrlimit(RLIMIT_DATA, &none);
  }
  ~NoMoreMemory() { setrlimit(RLIMIT_DATA, &before_); }
  NoMoreMemory(const NoMoreMemory&) = delete;
  NoMoreMemory& operator=(const NoMoreMemory&) = delete;

 private:
  rlimit before_{};
};

TEST(StackPool, a_stack_for_which_there_is_no_memory_is_not_lost) {
  constexpr uint32_t kAll = 3;
  StackPool pool(kStackBytes, kAll);
  StackCache cache(pool);
  std::vector<Stack*> taken{cache.take()};
  ASSERT_NE(taken.front(), nullptr);
  {
    const NoMoreMemory none;
    if (Stack* const stack = pool.take(); stack != nullptr) {
      pool.give(stack);
      cache.give(taken.front());
      GTEST_SKIP() << "an emulator, which knows no such limit";
    }
    EXPECT_EQ(cache.take(), nullptr);
  }
  EXPECT_EQ(pool.refused(), 2u);
  EXPECT_EQ(pool.in_use(), 1u);
  while (Stack* const stack = cache.take()) taken.push_back(stack);
  EXPECT_EQ(taken.size(), kAll);
  for (Stack* const stack : taken) cache.give(stack);
}

TEST(StackPool, has_as_many_stacks_as_there_is_address_space) {
  if (sanitizer::kPresent) GTEST_SKIP() << "a sanitizer would shadow all of a terabyte";
  StackPool pool(size_t{1} << 40, 100'000);
  EXPECT_GE(pool.capacity(), 1u);
  EXPECT_LE(pool.capacity(), 128u);
  Stack* stack = pool.take();
  ASSERT_NE(stack, nullptr);
  stack->low[0] = std::byte{1};
  pool.give(stack);
}

TEST(StackPool, without_address_space_refuses_everything) {
  StackPool pool(size_t{1} << 50, 4);
  EXPECT_EQ(pool.take(), nullptr);
  EXPECT_EQ(pool.refused(), 1u);
  EXPECT_EQ(pool.high_water_bytes(), 0u);
}

TEST(StackPool, warmest_stack_comes_first) {
  StackPool pool(kStackBytes, 32);
  StackCache cache(pool);
  Stack* first = cache.take();
  Stack* second = cache.take();
  cache.give(first);
  cache.give(second);
  EXPECT_EQ(cache.take(), second);
  EXPECT_EQ(cache.take(), first);
  cache.give(first);
  cache.give(second);
}

TEST(StackPool, cache_that_receives_more_than_it_takes_feeds_the_others) {
  StackPool pool(kStackBytes, 128);
  StackCache starts(pool);
  StackCache finishes(pool);
  for (int i = 0; i < 10'000; ++i) {
    Stack* stack = starts.take();
    ASSERT_NE(stack, nullptr) << i;
    finishes.give(stack);
  }
  EXPECT_EQ(pool.in_use(), 0u);
  EXPECT_EQ(pool.refused(), 0u);
  EXPECT_LE(pool.in_use_max(), 128u);
}

TEST(StackPool, cache_that_is_destroyed_returns_its_stacks) {
  StackPool pool(kStackBytes, 16);
  Stack* kept = nullptr;
  {
    StackCache cache(pool);
    kept = cache.take();
    cache.give(cache.take());
  }
  EXPECT_EQ(pool.in_use(), 1u);
  pool.give(kept);
  EXPECT_EQ(pool.in_use(), 0u);
  std::vector<Stack*> all;
  for (Stack* stack = pool.take(); stack != nullptr; stack = pool.take()) all.push_back(stack);
  EXPECT_EQ(all.size(), 16u);
  for (Stack* stack : all) pool.give(stack);
}

TEST(StackPool, reports_the_deepest_use_of_any_stack) {
  StackPool pool(256 * 1024, 4);
  EXPECT_EQ(pool.high_water_bytes(), 0u);
  StackCache cache(pool);
  Stack* shallow = cache.take();
  Stack* deep = cache.take();
  shallow->low[shallow->size_bytes - 100] = std::byte{1};
  const size_t before = pool.high_water_bytes();
  EXPECT_GE(before, 100u);
  EXPECT_LE(before, 2 * 4096u);
  deep->low[deep->size_bytes - 100'000] = std::byte{1};
  cache.give(shallow);
  cache.give(deep);
  EXPECT_GE(pool.high_water_bytes(), 100'000u);
  EXPECT_LE(pool.high_water_bytes(), 100'000u + 2 * 4096);
}

TEST(StackPool, keeps_count_when_stacks_move_between_threads) {
  StackPool pool(kStackBytes, 256);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&pool] {
      StackCache cache(pool);
      for (int round = 0; round < 500; ++round) {
        Stack* held[20];
        for (Stack*& stack : held) stack = cache.take();
        for (Stack* stack : held) {
          if (stack != nullptr) stack->low[stack->size_bytes - 1] = std::byte{7};
        }
        for (Stack* stack : held) {
          if (stack != nullptr) cache.give(stack);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(pool.in_use(), 0u);
  EXPECT_EQ(pool.refused(), 0u);
  EXPECT_LE(pool.in_use_max(), 256u);
}

// Writes every page from the top down, through the guard page if nothing stops it.
[[noreturn]] void dig(void* argument) {
  auto* stack = static_cast<Stack*>(argument);
  auto* bottom = reinterpret_cast<volatile char*>(stack->low);
  for (ptrdiff_t at = static_cast<ptrdiff_t>(stack->size_bytes) - 1; at >= -4096; at -= 1024) {
    bottom[at] = 1;
  }
  std::_Exit(0);
}

// Writes at the far end of an array that does not fit.
[[noreturn]] void jump(void* argument) {
  auto* bottom = reinterpret_cast<volatile char*>(static_cast<Stack*>(argument)->low);
  bottom[-200'000] = 1;
  std::_Exit(0);
}

TEST(StackPoolDeathTest, write_below_a_stack_faults) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        StackPool pool(kStackBytes, 4);
        Stack* first = pool.take();
        first->low[0] = std::byte{1};
        dig(pool.take());
      },
      "");
}

[[gnu::noinline]] uint64_t recurse(uint64_t depth) {
  volatile char frame[512] = {};
  frame[depth % sizeof(frame)] = 1;
  return depth == 0 ? 0 : recurse(depth - 1) + static_cast<uint64_t>(frame[depth % sizeof(frame)]);
}

TEST(StackPoolDeathTest, write_far_below_a_stack_faults) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        StackPool pool(kStackBytes, 4);
        static_cast<void>(pool.take());
        jump(pool.take());
      },
      "");
}

TEST(StackPoolDeathTest, an_overflow_is_told_from_other_faults) {
  if (sanitizer::kPresent) GTEST_SKIP() << "a sanitizer reports it itself";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto die_by = [](uintptr_t (*address)(StackPool&)) {
    const SignalStack stack;
    StackPool pool(kStackBytes, 4);
    report_stack_overflows([](RunningWork& work) {
      work = {"search", 7, 42};
      return true;
    });
    *reinterpret_cast<volatile char*>(address(pool)) = 1;
  };
  const auto in_guard = [](StackPool& pool) {
    return reinterpret_cast<uintptr_t>(pool.take()->low) - 1;
  };
  EXPECT_EXIT(die_by(in_guard), ::testing::KilledBySignal(SIGSEGV),
              "rubato: a request of type 7 \\(search\\) of connection 42 has overflowed its stack "
              "of 64 KiB; the option `stack` sets it");
  const auto elsewhere = [](StackPool&) { return uintptr_t{16}; };
  EXPECT_EXIT(die_by(elsewhere), ::testing::KilledBySignal(SIGSEGV), "^$");
}

TEST(StackPoolDeathTest, recursion_without_end_faults_and_does_not_corrupt) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        StackPool pool(kStackBytes, 4);
        Fiber thread;
        Fiber fiber;
        fiber_adopt_thread(thread);
        fiber_start(fiber, pool.take(), [](void* self) {
          fiber_entered(*static_cast<Fiber*>(self));
          std::_Exit(recurse(1'000'000) == 0 ? 1 : 0);
        }, &fiber);
        fiber_switch(thread, fiber);
      },
      "");
}

}  // namespace
}  // namespace rubato
