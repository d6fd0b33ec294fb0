// SPDX-License-Identifier: Apache-2.0
//
// An executor in a loop of libevent.
#include <event2/event.h>

#include <memory>

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

}  // namespace
