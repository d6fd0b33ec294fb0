// SPDX-License-Identifier: Apache-2.0
//
// A task that has waited for a condition goes on when it has its mutex, and not before: it takes no
// second fiber, which there may be none of, and no second turn.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <utility>

#include "executor/executor.h"
#include "mechanism/clock/clock.h"
#include "runtime/waiting.h"

namespace rubato {
namespace {

class OnCondition : public testing::Test {
 public:
  OnCondition() {
    ExecutorOptions options;
    options.runtime.workers = 1;
    options.runtime.policy = "fcfs";
    options.runtime.max_fibers = kFibers;
    executor_ = std::make_unique<Executor>(options);
    RUBATO_CHECK(executor_->start(options).ok());
  }

  using Step = void (OnCondition::*)();
  void submit(Step step) {
    Task* const task = executor_->reserve({});
    ASSERT_NE(task, nullptr);
    ::new (task->closure) Closure{this, step};
    executor_->submit(*task, &run, &done);
  }
  void wait_for_ends(int ends) const {
    while (ended_ < ends) std::this_thread::yield();
  }
  void stop() {
    executor_->stop();
    EXPECT_TRUE(executor_->join());
  }
  RuntimeStats stats() const { return executor_->runtime().stats(); }

  // Steps of tasks.
  void nothing() {}
  void wait() { wait_until({}); }
  void wait_a_moment() { wait_until({now() + Nanos(1)}); }
  void wait_for_ever() { static_cast<void>(never_.acquire({})); }

  // On a thread: has the mutex when the task has let it go.
  void lock_behind_the_task() {
    for (;;) {
      static_cast<void>(mutex_.lock({}));
      if (waits_) return;
      mutex_.unlock();
      std::this_thread::yield();
    }
  }

  static constexpr uint32_t kFibers = 2;  // one task waits while others run

  waiting::Mutex mutex_;
  waiting::Condition changed_;
  waiting::Semaphore never_;
  Wake why_ = Wake::kNone;
  std::unique_ptr<Executor> executor_;

 private:
  struct Closure {
    OnCondition* test;
    Step step;
  };
  static int run(void* closure) {
    const Closure& self = *static_cast<Closure*>(closure);
    (self.test->*self.step)();
    return 0;
  }
  static void done(void* closure, int, int64_t) { ++static_cast<Closure*>(closure)->test->ended_; }

  void wait_until(const WaitLimit& limit) {
    static_cast<void>(mutex_.lock({}));
    waits_ = true;
    why_ = changed_.wait(mutex_, limit);
    EXPECT_FALSE(mutex_.try_lock());
    mutex_.unlock();
  }

  bool waits_ = false;  // the mutex guards it
  std::atomic<int> ended_{0};
};

TEST_F(OnCondition, who_is_notified_comes_back_with_the_mutex) {
  submit(&OnCondition::wait);
  lock_behind_the_task();
  changed_.notify(true);
  submit(&OnCondition::nothing);
  wait_for_ends(1);
  EXPECT_EQ(stats().came_back, 0u);
  mutex_.unlock();
  wait_for_ends(2);
  stop();
  EXPECT_EQ(why_, Wake::kWoken);
  EXPECT_EQ(stats().waits, 1u);
  EXPECT_EQ(stats().came_back, 1u);
}

TEST_F(OnCondition, whose_time_is_over_comes_back_with_the_mutex_too) {
  submit(&OnCondition::wait_a_moment);
  lock_behind_the_task();
  submit(&OnCondition::nothing);
  wait_for_ends(1);
  mutex_.unlock();
  wait_for_ends(2);
  stop();
  EXPECT_EQ(why_, Wake::kTimeout);
  EXPECT_EQ(stats().waits, 1u);
  EXPECT_TRUE(mutex_.try_lock());
}

TEST_F(OnCondition, who_finds_no_fiber_keeps_the_mutex) {
  submit(&OnCondition::wait_for_ever);
  submit(&OnCondition::wait);
  wait_for_ends(1);
  never_.release(1);
  wait_for_ends(2);
  stop();
  EXPECT_EQ(why_, Wake::kRefused);
  EXPECT_EQ(stats().waits, 1u);
  EXPECT_EQ(stats().preemptions_denied, 1u);
  EXPECT_TRUE(mutex_.try_lock());
}

}  // namespace
}  // namespace rubato
