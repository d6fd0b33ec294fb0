// SPDX-License-Identifier: Apache-2.0
#include "mechanism/queue/testing/model.h"

#include <algorithm>
#include <utility>

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
  try {
    thread.body();
  } catch (const Forsaken&) {
  }
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
  switch_from(std::exchange(running_, next));
}

void Execution::switch_from(uint32_t thread) {
  fiber_switch(*threads_[thread]->fiber, scheduler_);
}

void Execution::fence() {
  step();
  join(*view_, sc_view_);
  sc_view_ = *view_;
}

// Another thread goes on, which is no preemption.
void Execution::block(uint32_t location) {
  RUBATO_CHECK(running_ != kThreadsMax);
  threads_[running_]->blocked_on = location;
  const uint32_t self = std::exchange(running_, pick_next());
  if (running_ != self) switch_from(self);
  if (forsaken_) throw Forsaken();
}

void Execution::unblock(uint32_t location, bool all) {
  std::vector<Thread*> blocked;
  for (const auto& thread : threads_) {
    if (thread->blocked_on == location) blocked.push_back(thread.get());
  }
  if (blocked.empty()) return;
  if (!all) blocked = {blocked[choose(static_cast<uint32_t>(blocked.size()))]};
  for (Thread* thread : blocked) thread->blocked_on = 0;
}

// The next thread in order goes on, which is no preemption. All threads get their turn, including
// the one that the running thread waits for; and there is no choice, so that waiting ends.
void Execution::wait() {
  if (running_ == kThreadsMax) return;
  const auto count = static_cast<uint32_t>(threads_.size());
  uint32_t next = (running_ + 1) % count;
  while (!can_go_on(*threads_[next])) next = (next + 1) % count;
  if (next == running_) return;
  switch_from(std::exchange(running_, next));
}

bool Execution::can_go_on(const Thread& thread) {
  return !thread.ended && thread.blocked_on == 0;
}

// The thread to run next: the running one first, then the others in order.
uint32_t Execution::pick(bool running_can_go_on) {
  std::array<uint32_t, kThreadsMax> candidates;
  uint32_t count = 0;
  if (running_can_go_on) candidates[count++] = running_;
  if (!running_can_go_on || preemptions_ < explorer_->bounds().preemptions) {
    for (const auto& thread : threads_) {
      const bool counted = running_can_go_on && thread->number == running_;
      if (can_go_on(*thread) && !counted) candidates[count++] = thread->number;
    }
  }
  return count == 0 ? kThreadsMax : candidates[choose(count)];
}

// The same after the running thread has ended or is blocked. If all others are blocked too, they
// go on to their end.
uint32_t Execution::pick_next() {
  const uint32_t next = pick(false);
  const auto left = [](const auto& thread) { return !thread->ended; };
  if (next != kThreadsMax || std::none_of(threads_.begin(), threads_.end(), left)) return next;
  explorer_->fail("all threads that are left wait");
  forsaken_ = true;
  for (const auto& thread : threads_) thread->blocked_on = 0;
  return pick(false);
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
    if (threads_[now]->ended) running_ = pick_next();
  }
  view_ = &setup_view_;
  for (auto& thread : threads_) {
    join(setup_view_, thread->view);
    fiber_finish(*thread->fiber);
  }
  if (check_) check_();
}

}  // namespace rubato::model
