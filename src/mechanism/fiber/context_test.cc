// SPDX-License-Identifier: Apache-2.0
#include "mechanism/fiber/context.h"

#include <gtest/gtest.h>

#include <cfenv>
#include <cstdlib>
#include <vector>

#include "mechanism/fiber/fiber.h"

namespace rubato {
namespace {

constexpr size_t kStackBytes = 256 * 1024;

// Two parties that hand control to each other: the test's own thread and one fiber. They use
// fiber.h, so that the sanitizers know of the switches; fiber_switch adds nothing to the registers.
struct PingPong {
  Fiber thread;
  Fiber fiber;
  StackPool pool{kStackBytes, 2};
  Stack* stack = pool.take();
  uint64_t seen = 0;
  int rounding = -1;

  explicit PingPong(FiberEntry entry) {
    fiber_adopt_thread(thread);
    fiber_start(fiber, stack, entry, this);
  }
  ~PingPong() {
    fiber_finish(fiber);
    pool.give(stack);
  }
  void enter() { fiber_switch(thread, fiber); }
  void leave() { fiber_switch(fiber, thread); }
  [[noreturn]] void end() { fiber_switch_final(fiber, thread); }
};

TEST(Context, occupies_the_lines_it_states) {
  EXPECT_EQ(sizeof(Context), kContextLines * 64);
  EXPECT_EQ(alignof(Context), 64u);
}

TEST(Context, entry_gets_its_argument_on_an_aligned_stack) {
  PingPong pair([](void* argument) {
    auto& self = *static_cast<PingPong*>(argument);
    fiber_entered(self.fiber);
    // The compiler believes that this is aligned and would fold the test away.
    alignas(16) volatile char local[16] = {1};
    auto address = reinterpret_cast<uintptr_t>(&local);
    asm volatile("" : "+r"(address));
    self.seen = address;
    self.end();
  });
  pair.enter();
  EXPECT_NE(pair.seen, 0u);
  EXPECT_EQ(pair.seen % 16, 0u);
}

// More live values than there are registers to keep them in, so that all callee-saved registers
// are in use across the switch.
[[gnu::noinline]] uint64_t mix_across_switches(PingPong& self, uint64_t seed, bool inside) {
  uint64_t v[12];
  for (uint64_t i = 0; i < 12; ++i) v[i] = seed * (i + 3);
  double d = static_cast<double>(seed);
  for (int round = 0; round < 100; ++round) {
    for (uint64_t& x : v) x = x * 6364136223846793005u + 1442695040888963407u;
    inside ? self.leave() : self.enter();
    d = d * 0.5 + 1.0;
  }
  uint64_t sum = static_cast<uint64_t>(d * 1000);
  for (uint64_t x : v) sum = sum * 31 + x;
  return sum;
}

uint64_t mix_without_switches(uint64_t seed) {
  uint64_t sum = 0;
  double d = static_cast<double>(seed);
  uint64_t v[12];
  for (uint64_t i = 0; i < 12; ++i) v[i] = seed * (i + 3);
  for (int round = 0; round < 100; ++round) {
    for (uint64_t& x : v) x = x * 6364136223846793005u + 1442695040888963407u;
    d = d * 0.5 + 1.0;
  }
  sum = static_cast<uint64_t>(d * 1000);
  for (uint64_t x : v) sum = sum * 31 + x;
  return sum;
}

TEST(Context, keeps_what_a_call_keeps) {
  PingPong pair([](void* argument) {
    auto& self = *static_cast<PingPong*>(argument);
    fiber_entered(self.fiber);
    self.seen = mix_across_switches(self, 77, true);
    self.end();
  });
  const uint64_t ours = mix_across_switches(pair, 55, false);
  pair.enter();
  EXPECT_EQ(ours, mix_without_switches(55));
  EXPECT_EQ(pair.seen, mix_without_switches(77));
}

TEST(Context, rounding_mode_belongs_to_the_fiber) {
  PingPong pair([](void* argument) {
    auto& self = *static_cast<PingPong*>(argument);
    fiber_entered(self.fiber);
    std::fesetround(FE_UPWARD);
    self.leave();
    self.rounding = std::fegetround();
    self.end();
  });
  std::fesetround(FE_TONEAREST);
  pair.enter();
  EXPECT_EQ(std::fegetround(), FE_TONEAREST);
  std::fesetround(FE_DOWNWARD);
  pair.enter();
  EXPECT_EQ(std::fegetround(), FE_DOWNWARD);
  std::fesetround(FE_TONEAREST);
  EXPECT_EQ(pair.rounding, FE_UPWARD);
}

TEST(Context, fresh_fiber_starts_with_its_makers_rounding_mode) {
  std::fesetround(FE_TOWARDZERO);
  PingPong pair([](void* argument) {
    auto& self = *static_cast<PingPong*>(argument);
    fiber_entered(self.fiber);
    self.rounding = std::fegetround();
    self.end();
  });
  std::fesetround(FE_TONEAREST);
  pair.enter();
  EXPECT_EQ(pair.rounding, FE_TOWARDZERO);
}

#if defined(__x86_64__)
uint16_t x87_control_word() {
  uint16_t word = 0;
  asm volatile("fnstcw %0" : "=m"(word));
  return word;
}

TEST(Context, x87_control_word_belongs_to_the_fiber) {
  const uint16_t before = x87_control_word();
  PingPong pair([](void* argument) {
    auto& self = *static_cast<PingPong*>(argument);
    fiber_entered(self.fiber);
    const uint16_t single_precision = 0x007f;
    asm volatile("fldcw %0" ::"m"(single_precision));
    self.leave();
    self.seen = x87_control_word();
    self.end();
  });
  pair.enter();
  EXPECT_EQ(x87_control_word(), before);
  pair.enter();
  EXPECT_EQ(x87_control_word(), before);
  EXPECT_EQ(pair.seen, 0x007fu);
}
#endif

void return_from_entry(void* argument) {
  fiber_entered(static_cast<PingPong*>(argument)->fiber);
}

TEST(ContextDeathTest, return_from_entry_traps) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        PingPong pair(&return_from_entry);
        pair.enter();
        std::_Exit(0);
      },
      "");
}

}  // namespace
}  // namespace rubato
