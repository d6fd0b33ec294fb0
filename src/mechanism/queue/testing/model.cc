// SPDX-License-Identifier: Apache-2.0
#include "mechanism/queue/testing/model.h"

#include <algorithm>

#include "mechanism/fiber/stack.h"

namespace rubato::model {
namespace {

thread_local Execution* t_run = nullptr;

constexpr size_t kStackBytes = 64 * 1024;

}  // namespace

// Depth-first search over the tree of choices: `path_` is the way to the present execution, and
// each execution replays it from the start, then takes the first branch everywhere.
class Explorer {
 public:
  explicit Explorer(const Bounds& bounds) : bounds_(bounds) {}

  Report explore(const std::function<void(Execution&)>& scenario) {
    Report report;
    do {
      ++report.executions;
      if (report.executions > bounds_.executions) fail("more executions than allowed");
      execute_once(scenario);
    } while (failure_.empty() && advance());
    report.failure = failure_;
    return report;
  }

  uint32_t choose(uint32_t count) {
    if (depth_ == path_.size()) path_.push_back({0, count});
    RUBATO_CHECK(path_[depth_].count == count);
    return path_[depth_++].taken;
  }

  void fail(const char* what) {
    if (!failure_.empty()) return;
    failure_ = std::string(what) + "; choices:";
    for (size_t i = 0; i < depth_; ++i) failure_ += " " + std::to_string(path_[i].taken);
  }

  const Bounds& bounds() const { return bounds_; }
  Stack* stack(uint32_t thread) {
    if (stacks_[thread] == nullptr) stacks_[thread] = pool_.take();
    return stacks_[thread];
  }

 private:
  struct Choice {
    uint32_t taken;
    uint32_t count;
  };

  void execute_once(const std::function<void(Execution&)>& scenario) {
    depth_ = 0;
    Execution run;
    run.explorer_ = this;
    t_run = &run;
    scenario(run);
    run.execute();
    // The scenario's captures refer to this run's locations.
    run.threads_.clear();
    run.check_ = nullptr;
    t_run = nullptr;
  }

  // Goes to the next leaf of the tree; false after the last.
  bool advance() {
    while (!path_.empty() && path_.back().taken + 1 == path_.back().count) path_.pop_back();
    if (path_.empty()) return false;
    ++path_.back().taken;
    return true;
  }

  const Bounds bounds_;
  StackPool pool_{kStackBytes, kThreadsMax};
  std::array<Stack*, kThreadsMax> stacks_{};
  std::vector<Choice> path_;
  size_t depth_ = 0;
  std::string failure_;
};

Execution& current_run() {
  RUBATO_CHECK(t_run != nullptr);
  return *t_run;
}

Report explore(const Bounds& bounds, const std::function<void(Execution&)>& scenario) {
  return Explorer(bounds).explore(scenario);
}

void join(View& view, const View& other) {
  for (size_t i = 0; i < view.size(); ++i) view[i] = std::max(view[i], other[i]);
}

void Execution::thread(std::function<void()> body) {
  RUBATO_CHECK(threads_.size() < kThreadsMax);
  threads_.push_back(std::make_unique<Thread>());
  Thread& thread = *threads_.back();
  thread.body = std::move(body);
  thread.fiber = std::make_unique<Fiber>();
  thread.run = this;
  thread.number = static_cast<uint32_t>(threads_.size() - 1);
}

void Execution::expect(bool condition, const char* what) {
  if (!condition) explorer_->fail(what);
}

uint32_t Execution::new_location() {
  RUBATO_CHECK(locations_ < kLocationsMax);
  return locations_++;
}

uint32_t Execution::choose(uint32_t count) { return count <= 1 ? 0 : explorer_->choose(count); }

// The latest store first, so that the plainest execution is the first one.
uint32_t Execution::choose_store(uint32_t oldest, uint32_t latest) {
  if (running_ == kThreadsMax || stale_reads_ == explorer_->bounds().stale_reads) return latest;
  const uint32_t back = choose(latest - oldest + 1);
  if (back > 0) ++stale_reads_;
  return latest - back;
}

uint32_t Execution::tick() { return ++view()[running_]; }

void Execution::entry(void* argument) {
  auto& thread = *static_cast<Thread*>(argument);
  fiber_entered(*thread.fiber);
  thread.body();
  thread.ended = true;
  fiber_switch_final(*thread.fiber, thread.run->scheduler_);
}

// Switches to the scheduler loop if another thread is to go on; otherwise returns.
void Execution::step() {
  if (running_ == kThreadsMax) return;
  if (++steps_ > kStepsMax) explorer_->fail("no end in sight");
  RUBATO_CHECK(steps_ < 2 * kStepsMax);
  const uint32_t next = pick(true);
  if (next == running_) return;
  ++preemptions_;
  Fiber& self = *threads_[running_]->fiber;
  running_ = next;
  fiber_switch(self, scheduler_);
}

void Execution::fence() {
  step();
  join(*view_, fence_view_);
  fence_view_ = *view_;
}

// The next thread in order goes on, which is no preemption. All threads get their turn, including
// the one that the running thread waits for; and there is no choice, so that waiting ends.
void Execution::wait() {
  if (running_ == kThreadsMax) return;
  const auto count = static_cast<uint32_t>(threads_.size());
  uint32_t next = (running_ + 1) % count;
  while (threads_[next]->ended) next = (next + 1) % count;
  if (next == running_) return;
  Fiber& self = *threads_[running_]->fiber;
  running_ = next;
  fiber_switch(self, scheduler_);
}

// The thread to run next: the running one first, then the others in order.
uint32_t Execution::pick(bool running_can_go_on) {
  std::array<uint32_t, kThreadsMax> candidates;
  uint32_t count = 0;
  if (running_can_go_on) candidates[count++] = running_;
  if (!running_can_go_on || preemptions_ < explorer_->bounds().preemptions) {
    for (const auto& thread : threads_) {
      const bool counted = running_can_go_on && thread->number == running_;
      if (!thread->ended && !counted) candidates[count++] = thread->number;
    }
  }
  return count == 0 ? kThreadsMax : candidates[choose(count)];
}

void Execution::execute() {
  fiber_adopt_thread(scheduler_);
  for (auto& thread : threads_) {
    thread->view = setup_view_;
    fiber_start(*thread->fiber, explorer_->stack(thread->number), &Execution::entry, thread.get());
  }
  running_ = pick(false);
  while (running_ != kThreadsMax) {
    const uint32_t now = running_;
    view_ = &threads_[now]->view;
    fiber_switch(scheduler_, *threads_[now]->fiber);
    if (threads_[now]->ended) running_ = pick(false);
  }
  view_ = &setup_view_;
  for (auto& thread : threads_) {
    join(setup_view_, thread->view);
    fiber_finish(*thread->fiber);
  }
  if (check_) check_();
}

}  // namespace rubato::model
