// SPDX-License-Identifier: Apache-2.0
#include "executor/task.h"

namespace rubato {
namespace {

// Frames nothing: tasks come by submit(). Also tells a task from other requests.
class TaskSession final : public Session {
 public:
  Frame frame(std::string_view, Request&) override { return {}; }
  // The end of the task tells its owner (TaskQueue::finish).
  void refuse(Request&) override {}
  CancelList* cancel_list(const Request& request) override {
    Cancellation* const cancellation = static_cast<const Task&>(request).cancellation;
    return cancellation != nullptr ? &cancellation->waits() : nullptr;
  }
};

// Never destroyed: workers may still have tasks when the program ends by exit().
template <class T>
union Lasting {
  Lasting() : value() {}
  ~Lasting() {}
  T value;
};

Lasting<TaskSession> g_session;
Lasting<ReplyBuffer> g_no_reply;  // stays empty
constinit const std::atomic<ClientState> g_wanted{ClientState::kOpen};

}  // namespace

void Task::renew() {
  static_cast<Request&>(*this) = Request();
  session = &g_session.value;
  reply = &g_no_reply.value;
  client = &g_wanted;
  argument = closure;
  trace = 0;
}

Task* as_task(Request* request) {
  const bool is_task = request != nullptr && request->session == &g_session.value;
  return is_task ? static_cast<Task*>(request) : nullptr;
}

}  // namespace rubato
