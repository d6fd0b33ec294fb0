// SPDX-License-Identifier: Apache-2.0
//
// An executor in a loop of libevent, and one in several.
#include <event2/event.h>

#include <memory>
#include <vector>

#include "api/testing/in_loop.h"

namespace {

void run_tasks(evutil_socket_t, short, void* executor) {
  static_cast<rubato::Executor*>(executor)->run(rubato::api::testing::kBudget);
}

TEST(Libevent, runs_tasks_and_its_own_events_in_turns) {
  rubato::api::testing::serves_beside_the_loop(
      [](rubato::Executor& executor, const std::function<bool()>& over) {
        const std::unique_ptr<event_base, void (*)(event_base*)> base(event_base_new(),
                                                                     &event_base_free);
        const std::unique_ptr<event, void (*)(event*)> tasks(
            event_new(base.get(), executor.fd(), EV_READ | EV_PERSIST, &run_tasks, &executor),
            &event_free);
        event_add(tasks.get(), nullptr);
        uint64_t turns = 0;
        for (; !over(); ++turns) event_base_loop(base.get(), EVLOOP_ONCE | EVLOOP_NONBLOCK);
        return turns;
      });
}

// A loop of libevent, for one thread, with the executor's loop of that number in it.
void serve(rubato::Executor& executor, uint32_t loop) {
  struct Loop {
    rubato::Executor& executor;
    uint32_t number;
    event_base* base;
  };
  const std::unique_ptr<event_base, void (*)(event_base*)> base(event_base_new(),
                                                               &event_base_free);
  Loop self{executor, loop, base.get()};
  const auto run = [](evutil_socket_t, short, void* argument) {
    auto& [tasks, number, here] = *static_cast<Loop*>(argument);
    const auto state = tasks.run(rubato::api::testing::kBudget, number);
    if (state == rubato::LoopState::kStopped) event_base_loopbreak(here);
  };
  const std::unique_ptr<event, void (*)(event*)> tasks(
      event_new(base.get(), executor.fd(loop), EV_READ | EV_PERSIST, run, &self), &event_free);
  event_add(tasks.get(), nullptr);
  event_base_dispatch(base.get());
}

TEST(Libevent, several_loops_share_the_tasks_of_one_executor) {
  constexpr uint32_t kLoops = 3;
  auto executor = rubato::Executor::create({.scheduler = {.workers = kLoops}, .in_loop = true});
  ASSERT_TRUE(executor.ok()) << executor.error();
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < kLoops; ++i) threads.emplace_back([&, i] { serve(*executor, i); });
  // They hold all loops until the last one has one.
  std::atomic<uint32_t> meet{0};
  for (uint32_t i = 0; i < kLoops; ++i) {
    ASSERT_TRUE(executor->execute([&] {
      ++meet;
      while (meet < kLoops) std::this_thread::yield();
    }));
  }
  while (executor->unfinished() > 0) std::this_thread::yield();
  executor->stop();
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(executor->join());
}

}  // namespace
