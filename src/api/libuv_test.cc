// SPDX-License-Identifier: Apache-2.0
//
// An executor in a loop of libuv.
#include <uv.h>

#include "api/testing/in_loop.h"

namespace {

struct Loop {
  rubato::Executor* executor;
  const std::function<bool()>* over;
  uv_poll_t tasks;
  uv_idle_t others;
  uint64_t turns = 0;

  static void run_tasks(uv_poll_t* handle, int, int) {
    auto& loop = *static_cast<Loop*>(handle->data);
    loop.executor->run(rubato::api::testing::kBudget);
  }
  static void do_others(uv_idle_t* handle) {
    auto& loop = *static_cast<Loop*>(handle->data);
    ++loop.turns;
    if (!(*loop.over)()) return;
    uv_close(reinterpret_cast<uv_handle_t*>(&loop.tasks), nullptr);
    uv_close(reinterpret_cast<uv_handle_t*>(&loop.others), nullptr);
  }
};

TEST(Libuv, runs_tasks_and_its_own_handles_in_turns) {
  rubato::api::testing::serves_beside_the_loop(
      [](rubato::Executor& executor, const std::function<bool()>& over) {
        uv_loop_t uv;
        EXPECT_EQ(uv_loop_init(&uv), 0);
        Loop loop{&executor, &over, {}, {}};
        EXPECT_EQ(uv_poll_init(&uv, &loop.tasks, executor.fd()), 0);
        uv_idle_init(&uv, &loop.others);
        loop.tasks.data = loop.others.data = &loop;
        uv_poll_start(&loop.tasks, UV_READABLE, &Loop::run_tasks);
        uv_idle_start(&loop.others, &Loop::do_others);
        uv_run(&uv, UV_RUN_DEFAULT);
        EXPECT_EQ(uv_loop_close(&uv), 0);
        return loop.turns;
      });
}

}  // namespace
