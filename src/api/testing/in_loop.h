// SPDX-License-Identifier: Apache-2.0
//
// What an executor in somebody's event loop must do, whichever loop it is.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include <rubato/rubato.hpp>

namespace rubato::api::testing {

// How long the loop may be away for tasks.
inline constexpr std::chrono::microseconds kBudget{200};

// `run_loop` runs the loop, which runs the executor when its descriptor is readable, until `over`
// returns true. A long task does not keep the loop from the tasks of another thread, nor from what
// else it has to do: run_loop returns how often it came to that.
inline void serves_beside_the_loop(
    const std::function<uint64_t(Executor&, const std::function<bool()>& over)>& run_loop) {
  auto executor = Executor::create({.in_loop = true});
  ASSERT_TRUE(executor.ok()) << executor.error();
  constexpr int kShort = 100;
  std::atomic<int> ran{0};
  std::atomic<bool> long_ran{false};
  ASSERT_TRUE(executor->execute([&] {
    while (ran < kShort) rubato::checkpoint();
    long_ran = true;
  }));
  std::thread other([&] {
    for (int i = 0; i < kShort; ++i) {
      ASSERT_TRUE(executor->execute([&] { ++ran; }));
      while (ran <= i) std::this_thread::yield();
    }
  });
  EXPECT_GT(run_loop(*executor, [&] { return long_ran.load(); }), 1u);
  other.join();
  EXPECT_EQ(ran, kShort);
}

}  // namespace rubato::api::testing
