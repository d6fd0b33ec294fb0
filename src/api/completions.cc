// SPDX-License-Identifier: Apache-2.0
#include <rubato/completions.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <deque>
#include <mutex>
#include <new>

#include <rubato/rubato.h>

// The descriptor counts to one: it is written by whoever puts something into an empty queue, and
// read by whoever empties it, both under the lock.
struct rubato_completions {
 public:
  rubato_completions() : fd_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}
  ~rubato_completions() {
    if (fd_ >= 0) ::close(fd_);
  }
  rubato_completions(const rubato_completions&) = delete;
  rubato_completions& operator=(const rubato_completions&) = delete;

  int fd() const { return fd_; }

  // On a worker: a task that was preempted here would keep the lock from others.
  void add(const rubato_completion& completion) {
    rubato_preempt_disable();
    {
      const std::scoped_lock lock(mutex_);
      if (ended_.empty()) ::eventfd_write(fd_, 1);
      ended_.push_back(completion);
    }
    rubato_preempt_enable();
  }

  size_t take(rubato_completion* to, size_t room) {
    const std::scoped_lock lock(mutex_);
    size_t taken = 0;
    for (; taken < room && !ended_.empty(); ++taken) {
      to[taken] = ended_.front();
      ended_.pop_front();
    }
    eventfd_t count = 0;
    if (taken > 0 && ended_.empty()) ::eventfd_read(fd_, &count);
    return taken;
  }

 private:
  const int fd_;
  std::mutex mutex_;
  std::deque<rubato_completion> ended_;  // guarded by mutex_
};

namespace {

// The closure of a task.
struct Named {
  rubato_completions* completions;
  rubato_task_run run;
  void* user;
  uint64_t id;

  static int run_it(void* closure) {
    const Named& named = *static_cast<Named*>(closure);
    return named.run(named.user);
  }
  static void end_it(void* closure, int outcome, int64_t retry_after_ns) {
    const Named& named = *static_cast<Named*>(closure);
    named.completions->add({named.id, retry_after_ns, outcome, 0});
  }
};

}  // namespace

rubato_completions* rubato_completions_create(void) {
  auto* const completions = new (std::nothrow) rubato_completions;
  if (completions == nullptr || completions->fd() >= 0) return completions;
  delete completions;
  return nullptr;
}

void rubato_completions_destroy(rubato_completions* completions) { delete completions; }

int rubato_completions_submit(rubato_completions* completions, rubato_executor* executor,
                              const rubato_task_attributes* attributes, rubato_task_run run,
                              void* user, uint64_t id) {
  rubato_task* const task = rubato_task_create(executor, attributes);
  if (task == nullptr) return RUBATO_ERROR;
  ::new (rubato_task_closure(task)) Named{completions, run, user, id};
  rubato_task_submit(executor, task, &Named::run_it, &Named::end_it);
  return RUBATO_OK;
}

size_t rubato_completions_next(rubato_completions* completions, rubato_completion* to,
                               size_t room) {
  return completions->take(to, room);
}

int rubato_completions_fd(const rubato_completions* completions) { return completions->fd(); }
