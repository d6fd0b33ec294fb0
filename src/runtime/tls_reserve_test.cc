// SPDX-License-Identifier: Apache-2.0
#include "runtime/tls_reserve.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <memory>
#include <thread>
#include <vector>

namespace rubato {
namespace {

struct TlsReserveTest : testing::Test {
  void SetUp() override {
    if (const Status good = TlsBlock::available(); !good.ok()) GTEST_SKIP() << good.error();
  }
  static std::unique_ptr<TlsBlock> block() { return TlsBlock::make(); }
};

TEST_F(TlsReserveTest, keeps_as_many_ready_as_asked_for) {
  constexpr int kAhead = 3;
  std::atomic<int> made{0};
  TlsReserve reserve(kAhead, [&] {
    ++made;
    made.notify_all();
    return block();
  });
  ASSERT_TRUE(reserve.start());
  for (int seen = made; seen < kAhead; seen = made) made.wait(seen);
  std::vector<std::unique_ptr<TlsBlock>> taken;
  for (int i = 0; i < kAhead; ++i) taken.push_back(reserve.take());
  for (const auto& one : taken) ASSERT_NE(one, nullptr);
  for (int seen = made; seen < 2 * kAhead; seen = made) made.wait(seen);
}

TEST_F(TlsReserveTest, a_block_that_is_given_back_is_taken_again) {
  TlsReserve reserve(1, [] { return std::unique_ptr<TlsBlock>(); });
  ASSERT_TRUE(reserve.start());
  auto mine = block();
  const TlsBlock* const address = mine.get();
  reserve.give(std::move(mine));
  EXPECT_EQ(reserve.take().get(), address);
}

// The workers that take may be all that can end what holds up the thread.
TEST_F(TlsReserveTest, a_thread_that_is_held_up_holds_up_nobody_else) {
  auto let_go = std::make_shared<std::latch>(1);
  auto went_on = std::make_shared<std::latch>(1);
  {
    TlsReserve reserve(1, [let_go, went_on] {
      let_go->wait();
      went_on->count_down();
      return std::unique_ptr<TlsBlock>();
    });
    ASSERT_TRUE(reserve.start());
    const TlsReserve::LeftInside left(reserve);
    for (int i = 0; i < 1000; ++i) EXPECT_EQ(reserve.take(), nullptr);  // 500 s if each waited
  }
  let_go->count_down();
  went_on->wait();
}

TEST_F(TlsReserveTest, a_thread_that_was_held_up_serves_again) {
  std::latch let_go(1);
  std::atomic<int> made{0};
  TlsReserve reserve(1, [&] {
    let_go.wait();
    auto one = block();
    ++made;
    made.notify_all();
    return one;
  });
  ASSERT_TRUE(reserve.start());
  const TlsReserve::LeftInside left(reserve);
  EXPECT_EQ(reserve.take(), nullptr);
  let_go.count_down();
  made.wait(0);
  std::unique_ptr<TlsBlock> one;
  while (one == nullptr) one = reserve.take();
}

TEST_F(TlsReserveTest, an_attempt_that_fails_is_made_again_for_who_asks) {
  std::atomic<int> attempts{0};
  TlsReserve reserve(1, [&] {
    return ++attempts < 3 ? std::unique_ptr<TlsBlock>() : block();
  });
  ASSERT_TRUE(reserve.start());
  const TlsReserve::LeftInside left(reserve);
  std::unique_ptr<TlsBlock> one;
  for (int i = 0; i < 3 && one == nullptr; ++i) one = reserve.take();
  EXPECT_NE(one, nullptr);
}

TEST_F(TlsReserveTest, a_worker_makes_its_own_while_no_request_is_left_inside) {
  std::latch let_go(1);
  const auto test = std::this_thread::get_id();
  TlsReserve reserve(1, [&] {
    if (std::this_thread::get_id() != test) let_go.wait();
    return block();
  });
  ASSERT_TRUE(reserve.start());
  EXPECT_NE(reserve.take(), nullptr);
  EXPECT_NE(reserve.take(), nullptr);
  let_go.count_down();
}

}  // namespace
}  // namespace rubato
