// SPDX-License-Identifier: Apache-2.0
//
// A program without GoogleTest, so that aarch64_check.sh can cross-compile it and run it under an
// emulator: does the context switch of this processor keep what the fibers rely on? Exits 0 if so.
#include <cfenv>
#include <cstdio>
#include <stdexcept>
#include <string>

#include "base/check.h"
#include "mechanism/fiber/fiber.h"

namespace rubato {
namespace {

constexpr int kFibers = 5;
constexpr int kSwitches = 20'000;

struct PingPong {
  Fiber fiber;
  Fiber* back = nullptr;
  int number = 0;
  bool ended = false;
};

// More integer and floating-point values live across the switch than there are registers that a
// callee keeps, so that all of them are in use.
void juggle(PingPong& self) {
  uint64_t whole[16];
  double real[16];
  for (int i = 0; i < 16; ++i) {
    whole[i] = static_cast<uint64_t>(self.number * 100 + i);
    real[i] = self.number + i * 0.25;
  }
  for (int round = 0; round < kSwitches; ++round) {
    for (int i = 0; i < 16; ++i) {
      whole[i] += static_cast<uint64_t>(i);
      real[i] += 0.5;
    }
    fiber_switch(self.fiber, *self.back);
  }
  for (int i = 0; i < 16; ++i) {
    RUBATO_CHECK(whole[i] == static_cast<uint64_t>(self.number * 100 + i + i * kSwitches));
    RUBATO_CHECK(real[i] == self.number + i * 0.25 + 0.5 * kSwitches);
  }
}

void keep_rounding_mode(PingPong& self) {
  const int modes[] = {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
  const int mine = modes[self.number % 4];
  RUBATO_CHECK(std::fesetround(mine) == 0);
  for (int round = 0; round < 10; ++round) {
    fiber_switch(self.fiber, *self.back);
    RUBATO_CHECK(std::fegetround() == mine);
  }
}

void keep_exceptions(PingPong& self) {
  const std::string name = "fiber " + std::to_string(self.number);
  try {
    throw std::runtime_error(name);
  } catch (const std::runtime_error&) {
    fiber_switch(self.fiber, *self.back);
    try {
      throw;
    } catch (const std::runtime_error& error) {
      fiber_switch(self.fiber, *self.back);
      RUBATO_CHECK(name == error.what());
    }
  }
}

void run(void* argument) {
  auto& self = *static_cast<PingPong*>(argument);
  fiber_entered(self.fiber);
  juggle(self);
  keep_rounding_mode(self);
  keep_exceptions(self);
  self.ended = true;
  fiber_switch_final(self.fiber, *self.back);
}

void check_all() {
  StackPool pool(kStackDefaultBytes, kFibers);
  StackCache cache(pool);
  Fiber thread;
  PingPong parties[kFibers];
  fiber_adopt_thread(thread);
  for (int i = 0; i < kFibers; ++i) {
    parties[i].number = i;
    parties[i].back = &thread;
    fiber_start(parties[i].fiber, cache.take(), &run, &parties[i]);
  }
  for (int alive = kFibers; alive > 0;) {
    for (PingPong& side : parties) {
      if (side.ended) continue;
      fiber_switch(thread, side.fiber);
      if (side.ended) --alive;
    }
    RUBATO_CHECK(std::fegetround() == FE_TONEAREST);
  }
  for (PingPong& side : parties) {
    cache.give(side.fiber.stack);
    fiber_finish(side.fiber);
  }
  RUBATO_CHECK(pool.in_use() == 0);
}

}  // namespace
}  // namespace rubato

int main() {
  rubato::check_all();
  std::puts("fibers: ok");
  return 0;
}
