// SPDX-License-Identifier: Apache-2.0
#include "mechanism/fiber/fiber.h"

#include <gtest/gtest.h>

#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/prng.h"
#include "mechanism/cpu/process_memory.h"
#include "mechanism/queue/mpmc_queue.h"

namespace rubato {
namespace {

constexpr size_t kStackBytes = 128 * 1024;

// A task on a fiber: runs `body`, which may pause() any number of times; the code that resumes it,
// on any thread, gets control back at each pause and at the end.
class Task {
 public:
  Task(StackPool& pool, std::function<void(Task&)> body)
      : pool_(pool), stack_(pool.take()), body_(std::move(body)) {
    fiber_start(fiber_, stack_, &Task::run, this);
  }
  ~Task() {
    fiber_finish(fiber_);
    pool_.give(stack_);
  }
  Task(const Task&) = delete;

  // True until the body has ended, then false for ever.
  bool resume(Fiber& thread) {
    if (ended_) return false;
    resumer_ = &thread;
    fiber_switch(thread, fiber_);
    return !ended_;
  }

  void pause() { fiber_switch(fiber_, *resumer_); }

 private:
  static void run(void* argument) {
    auto& self = *static_cast<Task*>(argument);
    fiber_entered(self.fiber_);
    self.body_(self);
    self.ended_ = true;
    fiber_switch_final(self.fiber_, *self.resumer_);
  }

  StackPool& pool_;
  Stack* stack_;
  std::function<void(Task&)> body_;
  Fiber fiber_;
  Fiber* resumer_ = nullptr;
  bool ended_ = false;
};

class FiberTest : public testing::Test {
 protected:
  FiberTest() { fiber_adopt_thread(thread_); }
  StackPool pool_{kStackBytes, 256};
  Fiber thread_;
};

TEST_F(FiberTest, runs_pauses_and_ends) {
  std::string log;
  Task task(pool_, [&log](Task& self) {
    log += "a";
    self.pause();
    log += "c";
  });
  EXPECT_TRUE(task.resume(thread_));
  log += "b";
  EXPECT_FALSE(task.resume(thread_));
  EXPECT_EQ(log, "abc");
}

TEST_F(FiberTest, stack_is_reused_after_frames_were_abandoned) {
  Stack* stack = pool_.take();
  Fiber fiber;
  struct Pair {
    Fiber* thread;
    Fiber* fiber;
    uint64_t sum;
  } pair{&thread_, &fiber, 0};
  for (int i = 0; i < 1000; ++i) {
    fiber_start(fiber, stack, [](void* argument) {
      auto& p = *static_cast<Pair*>(argument);
      fiber_entered(*p.fiber);
      volatile char frame[300];
      for (char volatile& byte : frame) byte = 1;
      p.sum += static_cast<uint64_t>(frame[p.sum % sizeof(frame)]);
      fiber_switch_final(*p.fiber, *p.thread);
    }, &pair);
    fiber_switch(thread_, fiber);
  }
  EXPECT_EQ(pair.sum, 1000u);
  fiber_finish(fiber);
  pool_.give(stack);
}

// Under a sanitizer too, whose shadow of all these stacks has 128 MiB.
TEST_F(FiberTest, what_a_fiber_does_not_reach_of_its_stack_takes_no_memory) {
  constexpr uint32_t kFibers = 64;
  const uint64_t before = process_memory().resident_bytes;
  {
    StackPool pool(size_t{16} << 20, kFibers);
    std::deque<Task> tasks;
    for (uint32_t i = 0; i < kFibers; ++i) {
      EXPECT_FALSE(tasks.emplace_back(pool, [](Task&) {}).resume(thread_));
    }
  }
  EXPECT_LT(process_memory().resident_bytes, before + (uint64_t{32} << 20));
}

TEST_F(FiberTest, millions_of_switches_between_many_fibers) {
  constexpr int kTasks = 16;
  constexpr int kRounds = 125'000;
  uint64_t counts[kTasks] = {};
  std::vector<std::unique_ptr<Task>> tasks;
  for (uint64_t& count : counts) {
    tasks.push_back(std::make_unique<Task>(pool_, [&count](Task& self) {
      for (int i = 0; i < kRounds; ++i) {
        ++count;
        self.pause();
      }
    }));
  }
  for (bool alive = true; alive;) {
    alive = false;
    for (auto& task : tasks) alive = task->resume(thread_) || alive;
  }
  for (uint64_t count : counts) EXPECT_EQ(count, static_cast<uint64_t>(kRounds));
}

// Pauses inside a catch block and while an exception unwinds, then checks that both are its own.
struct PauseWhenUnwound {
  Task& task;
  ~PauseWhenUnwound() {
    EXPECT_EQ(std::uncaught_exceptions(), 1);
    task.pause();
    EXPECT_EQ(std::uncaught_exceptions(), 1);
  }
};

void throw_and_pause(Task& self, const std::string& name, int depth) {
  try {
    PauseWhenUnwound pause{self};
    throw std::runtime_error(name + std::to_string(depth));
  } catch (const std::runtime_error& error) {
    EXPECT_EQ(error.what(), name + std::to_string(depth));
    self.pause();
    if (depth > 0) throw_and_pause(self, name, depth - 1);
    self.pause();
    EXPECT_EQ(std::uncaught_exceptions(), 0);
    try {
      throw;
    } catch (const std::runtime_error& again) {
      self.pause();
      EXPECT_EQ(again.what(), name + std::to_string(depth));
    }
  }
}

TEST_F(FiberTest, exceptions_of_interleaved_fibers_stay_apart) {
  std::vector<std::unique_ptr<Task>> tasks;
  for (int i = 0; i < 8; ++i) {
    tasks.push_back(std::make_unique<Task>(pool_, [i](Task& self) {
      for (int round = 0; round < 50; ++round) {
        throw_and_pause(self, "fiber" + std::to_string(i) + ".", (i + round) % 4);
      }
    }));
  }
  for (bool alive = true; alive;) {
    alive = false;
    for (auto& task : tasks) alive = task->resume(thread_) || alive;
    EXPECT_EQ(std::uncaught_exceptions(), 0);
    EXPECT_EQ(std::current_exception(), nullptr);
  }
}

TEST_F(FiberTest, resumer_may_itself_be_in_a_catch_block) {
  Task task(pool_, [](Task& self) {
    EXPECT_EQ(std::current_exception(), nullptr);
    throw_and_pause(self, "inner", 0);
  });
  try {
    throw std::logic_error("outer");
  } catch (const std::logic_error&) {
    while (task.resume(thread_)) {
    }
    try {
      throw;
    } catch (const std::logic_error& outer) {
      EXPECT_STREQ(outer.what(), "outer");
    }
  }
}

// Never inlined: pthread_self() is declared `const`, and its answer would be kept across a switch.
[[gnu::noinline]] std::thread::id running_thread() {
  asm volatile("");
  return std::this_thread::get_id();
}

TEST_F(FiberTest, fiber_in_a_catch_block_can_be_resumed_on_another_thread) {
  std::thread::id ids[2];
  Task task(pool_, [&ids](Task& self) {
    try {
      throw std::runtime_error("mine");
    } catch (const std::runtime_error&) {
      ids[0] = running_thread();
      self.pause();
      ids[1] = running_thread();
      try {
        throw;
      } catch (const std::runtime_error& error) {
        EXPECT_STREQ(error.what(), "mine");
      }
    }
    EXPECT_EQ(std::current_exception(), nullptr);
  });
  ASSERT_TRUE(task.resume(thread_));
  EXPECT_EQ(std::current_exception(), nullptr);
  std::thread([&task] {
    Fiber other;
    fiber_adopt_thread(other);
    EXPECT_FALSE(task.resume(other));
    EXPECT_EQ(std::current_exception(), nullptr);
  }).join();
  EXPECT_NE(ids[0], ids[1]);
}

// Fibers wander between threads through a queue, throwing and catching on the way.
TEST_F(FiberTest, fibers_that_wander_between_threads_keep_their_state) {
  constexpr int kTasks = 32;
  constexpr int kThreads = 3;
  MpmcQueue<Task*> ready(64);
  std::atomic<int> alive{kTasks};
  std::vector<std::unique_ptr<Task>> tasks;
  for (int i = 0; i < kTasks; ++i) {
    tasks.push_back(std::make_unique<Task>(pool_, [i](Task& self) {
      for (int round = 0; round < 20; ++round) {
        throw_and_pause(self, "wanderer" + std::to_string(i) + ".", round % 3);
      }
    }));
    ASSERT_TRUE(ready.put(tasks.back().get()));
  }
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      Fiber self;
      fiber_adopt_thread(self);
      while (alive.load() > 0) {
        Task* task = nullptr;
        if (!ready.take(task)) {
          std::this_thread::yield();
        } else if (task->resume(self)) {
          while (!ready.put(task)) std::this_thread::yield();
        } else {
          alive.fetch_sub(1);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(alive.load(), 0);
}

TEST_F(FiberTest, random_interleavings_are_replayable) {
  const char* text = std::getenv("RUBATO_SEED");
  const uint64_t seed = text != nullptr ? std::strtoull(text, nullptr, 10) : 20'240'607;
  SCOPED_TRACE("RUBATO_SEED=" + std::to_string(seed));
  Prng prng(seed);
  std::deque<std::unique_ptr<Task>> tasks;
  int ended = 0;
  for (int step = 0; step < 20'000; ++step) {
    if (tasks.size() < 100 && prng.below(4) == 0) {
      const uint32_t depth = prng.below(4);
      tasks.push_back(std::make_unique<Task>(pool_, [depth](Task& self) {
        throw_and_pause(self, "random", static_cast<int>(depth));
      }));
    } else if (!tasks.empty()) {
      std::swap(tasks[prng.below(static_cast<uint32_t>(tasks.size()))], tasks.back());
      if (!tasks.back()->resume(thread_)) {
        tasks.pop_back();
        ++ended;
      }
    }
  }
  EXPECT_GT(ended, 0);
  for (auto& task : tasks) {
    while (task->resume(thread_)) {
    }
  }
}

TEST(FiberDeathTest, fiber_that_has_ended_cannot_be_resumed) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        StackPool pool(kStackBytes, 2);
        Fiber fibers[2];
        fiber_adopt_thread(fibers[0]);
        fiber_start(fibers[1], pool.take(), [](void* argument) {
          auto* both = static_cast<Fiber*>(argument);
          fiber_entered(both[1]);
          fiber_switch_final(both[1], both[0]);
        }, fibers);
        fiber_switch(fibers[0], fibers[1]);
        fiber_switch(fibers[0], fibers[1]);
      },
      "had ended was resumed");
}

TEST(FiberDeathTest, exception_that_leaves_a_fiber_terminates) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        StackPool pool(kStackBytes, 2);
        Fiber thread;
        fiber_adopt_thread(thread);
        Task task(pool, [](Task&) { throw std::runtime_error("nobody catches me"); });
        task.resume(thread);
      },
      "");
}

}  // namespace
}  // namespace rubato
