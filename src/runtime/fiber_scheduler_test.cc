// SPDX-License-Identifier: Apache-2.0
//
// Fibers of one worker, without a policy and without a runtime.
#include "runtime/fiber_scheduler.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/testing/letter_app.h"

namespace rubato {
namespace {

class QuietWorker final : public CurrentWorker {
 public:
  explicit QuietWorker(const Application& application)
      : CurrentWorker(WorkerId{0}, application) {}
  Request* recv() override { return nullptr; }
  void send(Request&) override {}
  bool checkpoint_slow(bool) override { return false; }
  bool yield_for_lock(bool) override { return false; }
  bool park(Waiter&) override { return false; }
  void end_current() override {}
  void long_begin(uint8_t) override {}
  void long_end() override {}
  FiberScheduler& fibers() override { check_failed(__FILE__, __LINE__, "it has none"); }
  WaitPort& waits() override { check_failed(__FILE__, __LINE__, "it has none"); }
};

// The first fiber leaves a request for the second, which resumes it and is parked meanwhile.
class FiberSchedulerTest : public ::testing::Test {
 protected:
  using LeftFor = FiberScheduler::LeftFor;

  static void entry(void* argument) {
    auto* self = static_cast<LoopFiber*>(argument);
    fiber_entered(self->fiber);
    auto* test = static_cast<FiberSchedulerTest*>(self->runtime);
    const FiberScheduler::Left left = test->fibers_.settle();
    left.request == nullptr ? test->leave() : test->resume(*left.request, left.what);
    test->fibers_.finish(*self);
  }

  void leave() {
    log_.emplace_back("first");
    const auto* here = static_cast<const std::byte*>(__builtin_frame_address(0));
    fibers_.call_on_thread([this, here] {
      const Stack& stack = *fibers_.running().fiber.stack;
      const auto* there = static_cast<const std::byte*>(__builtin_frame_address(0));
      EXPECT_TRUE(here >= stack.low && here < stack.low + stack.size_bytes);
      EXPECT_FALSE(there >= stack.low && there < stack.low + stack.size_bytes);
      log_.emplace_back("on the thread");
    });
    LoopFiber* to = fibers_.take();
    fibers_.leave_for(*to, {&request_, LeftFor::kLock});
    EXPECT_EQ(fibers_.settle().request, nullptr);
    log_.emplace_back("first again");
  }

  void resume(Request& request, LeftFor what) {
    log_.emplace_back(what == LeftFor::kLock ? "second, for a lock" : "second");
    EXPECT_EQ(&request, &request_);
    auto& to = *static_cast<LoopFiber*>(request.fiber);
    LoopFiber& from = fibers_.park_and_turn_to(to);
    EXPECT_EQ(&fibers_.running(), &to);
    fibers_.switch_from(from);
    EXPECT_EQ(fibers_.settle().request, nullptr);
    log_.emplace_back("second again");
  }

  FiberPool pool_{kStackDefaultBytes, 4};
  testing::LetterApp app_;
  QuietWorker current_{app_};
  SliceClock clock_{SliceWatch::kNobody};
  FiberScheduler fibers_{pool_, &entry, this, current_, clock_, PreemptMechanism::kNone};
  Request request_;
  std::vector<std::string> log_;
};

TEST_F(FiberSchedulerTest, a_request_is_known_only_when_its_fiber_was_left) {
  ASSERT_TRUE(fibers_.prepare());
  fibers_.attach();
  fibers_.run();
  fibers_.detach();
  const std::vector<std::string> expected{"first", "on the thread", "second, for a lock",
                                          "first again", "second again"};
  EXPECT_EQ(log_, expected);
  EXPECT_EQ(pool_.made(), 2u);
}

TEST(FiberPool, a_stack_for_which_there_is_no_tls_block_is_not_lost) {
  if (const Status good = TlsBlock::available(); !good.ok()) GTEST_SKIP() << good.error();
  constexpr uint32_t kAll = 2;
  FiberPool pool(kStackDefaultBytes, kAll, true);
  const FiberEntry never_runs = [](void*) {};
  {
    const TlsReserve::LeftInside left(pool.tls_reserve());  // a thread makes one, or nobody
    EXPECT_EQ(pool.make(never_runs, nullptr), nullptr);
  }
  for (uint32_t i = 0; i < kAll; ++i) EXPECT_NE(pool.make(never_runs, nullptr), nullptr);
  EXPECT_EQ(pool.make(never_runs, nullptr), nullptr);
}

}  // namespace
}  // namespace rubato
