// SPDX-License-Identifier: Apache-2.0
//
// Waiting without holding a worker: sleep_for, Mutex, ConditionVariable, Semaphore, Channel,
// wait_fd and offload, for tasks of an Executor and requests of a Server. <rubato/wait.h> has the
// rules for threads, switching, order and limits in full; on other threads the same calls block.
// Header only.
//
//   rubato::Mutex mutex;
//   std::lock_guard lock(mutex);                    // held across waits and switches, if need be
//   rubato::sleep_for(20ms);
//   auto next = channel.pop(50ms);                  // empty: the deadline has passed, or closed
//   auto row = rubato::offload([&] { return database.get(key); });
//
// A wait of a task that is to end throws Cancelled, as a checkpoint does; while the stack is
// unwound it does not, and returns false. A task that cannot wait, since max_fibers are in use,
// gets a std::system_error.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include <rubato/feedback.hpp>
#include <rubato/wait.h>

namespace rubato::inline v1 {

// The end of a wait: a time from now, a point in time, or never.
class Deadline {
 public:
  Deadline() = default;
  template <class Rep, class Period>
  Deadline(std::chrono::duration<Rep, Period> from_now) {
    const int64_t limit = limit_ns(from_now);
    if (limit == RUBATO_WAIT_FOREVER) return;
    at_ = std::chrono::steady_clock::now() + std::chrono::nanoseconds(limit);
  }
  Deadline(std::chrono::steady_clock::time_point at) : at_(at) {}

  bool is_never() const { return at_ == std::chrono::steady_clock::time_point::max(); }
  // As the functions of <rubato/wait.h> take it.
  int64_t limit_ns() const {
    if (is_never()) return RUBATO_WAIT_FOREVER;
    const auto now = std::chrono::steady_clock::now();
    return at_ > now ? std::chrono::nanoseconds(at_ - now).count() : 0;
  }
  // Of a time from now, which may be negative, or too long for nanoseconds.
  template <class Rep, class Period>
  static int64_t limit_ns(std::chrono::duration<Rep, Period> from_now) {
    if (!(from_now > from_now.zero())) return 0;
    if (!(from_now < kLongest)) return RUBATO_WAIT_FOREVER;
    return std::chrono::duration_cast<std::chrono::nanoseconds>(from_now).count();
  }

 private:
  static constexpr std::chrono::hours kLongest{24 * 365 * 100};

  std::chrono::steady_clock::time_point at_ = std::chrono::steady_clock::time_point::max();
};

namespace detail {

inline constexpr auto kAgain = std::errc::resource_unavailable_try_again;

[[gnu::noinline, gnu::cold]] inline void not_waited(int result, int error) {
  if (result == RUBATO_WAIT_CANCELLED) cancel();
  if (result != RUBATO_WAIT_REFUSED || std::uncaught_exceptions() > 0) return;
  throw std::system_error(error, std::generic_category(), "rubato: the task cannot wait");
}

// True: what was waited for has come.
inline bool waited(int result, int error = static_cast<int>(kAgain)) {
  if (result == RUBATO_WAIT_OK) [[likely]] return true;
  if (result != RUBATO_WAIT_TIMEOUT && result != RUBATO_WAIT_CLOSED) not_waited(result, error);
  return false;
}

}  // namespace detail

template <class Rep, class Period>
void sleep_for(std::chrono::duration<Rep, Period> time) {
  detail::waited(rubato_sleep(Deadline::limit_ns(time)));
}
inline void sleep_until(std::chrono::steady_clock::time_point at) {
  detail::waited(rubato_sleep(Deadline(at).limit_ns()));
}
// Lets the tasks that wait for their turn go first.
inline void yield() { rubato_yield(); }

// Waits for events of <poll.h>: those that have come, 0 = the deadline has passed. An error of the
// descriptor is a std::system_error.
inline short wait_fd(int fd, short events, Deadline deadline = {}) {
  short came = 0;
  int error = 0;
  const int result = rubato_wait_fd(fd, events, deadline.limit_ns(), &came, &error);
  return detail::waited(result, error) ? came : short{0};
}

// A mutex for tasks and threads, for std::lock_guard, std::unique_lock and std::scoped_lock.
class Mutex {
 public:
  constexpr Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  // Throws as every wait does, except while the stack is unwound.
  void lock() {
    const int result = rubato_mutex_lock(&c_, RUBATO_WAIT_FOREVER);
    if (!detail::waited(result)) rubato_mutex_lock_always(&c_);
  }
  bool try_lock() { return rubato_mutex_try_lock(&c_) != 0; }
  template <class Rep, class Period>
  bool try_lock_for(std::chrono::duration<Rep, Period> time) {
    return detail::waited(rubato_mutex_lock(&c_, Deadline(time).limit_ns()));
  }
  bool try_lock_until(std::chrono::steady_clock::time_point at) {
    return detail::waited(rubato_mutex_lock(&c_, Deadline(at).limit_ns()));
  }
  void unlock() { rubato_mutex_unlock(&c_); }

  rubato_mutex* c() { return &c_; }

 private:
  rubato_mutex c_{};
};

class ConditionVariable {
 public:
  constexpr ConditionVariable() = default;
  ConditionVariable(const ConditionVariable&) = delete;
  ConditionVariable& operator=(const ConditionVariable&) = delete;

  // The lock is held afterwards, also when it throws. False: the deadline has passed.
  bool wait(std::unique_lock<Mutex>& lock, Deadline deadline = {}) {
    return detail::waited(
        rubato_condition_wait(&c_, lock.mutex()->c(), deadline.limit_ns()));
  }
  // Waits until the predicate holds; its value.
  template <class P, class = std::enable_if_t<std::is_invocable_v<P&>>>
  bool wait(std::unique_lock<Mutex>& lock, P holds, Deadline deadline = {}) {
    while (!holds()) {
      if (!wait(lock, deadline)) return holds();
    }
    return true;
  }
  void notify_one() { rubato_condition_notify_one(&c_); }
  void notify_all() { rubato_condition_notify_all(&c_); }

 private:
  rubato_condition c_{};
};

class Semaphore {
 public:
  explicit Semaphore(uint64_t permits = 0) { release(permits); }
  Semaphore(const Semaphore&) = delete;
  Semaphore& operator=(const Semaphore&) = delete;

  // False: the deadline has passed, or it is closed and has no permit.
  bool acquire(Deadline deadline = {}) {
    return detail::waited(rubato_semaphore_acquire(&c_, deadline.limit_ns()));
  }
  bool try_acquire() { return rubato_semaphore_try_acquire(&c_) != 0; }
  void release(uint64_t permits = 1) { rubato_semaphore_release(&c_, permits); }
  // From now on nobody waits for a permit.
  void close() { rubato_semaphore_close(&c_); }

 private:
  rubato_semaphore c_{};
};

// A queue of at most `capacity` values, between any number of tasks and threads.
template <class T>
class Channel {
  static_assert(std::is_nothrow_move_constructible_v<T>);

 public:
  explicit Channel(size_t capacity) : room_(capacity), values_(capacity) {}
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  // Waits for room. False: the channel is closed, or the deadline has passed, and the value is
  // gone.
  bool push(T value, Deadline deadline = {}) {
    return room_.acquire(deadline) && put(std::move(value));
  }
  bool try_push(T value) { return room_.try_acquire() && put(std::move(value)); }

  // Waits for a value. None: the channel is closed and empty, or the deadline has passed.
  std::optional<T> pop(Deadline deadline = {}) {
    return filled_.acquire(deadline) ? take() : std::nullopt;
  }
  std::optional<T> try_pop() { return filled_.try_acquire() ? take() : std::nullopt; }

  // Takes no more values, and hands out those that it has.
  void close() {
    const Lock lock(mutex_);
    closed_ = true;
    room_.close();
    filled_.close();
  }

 private:
  // The lock of a few instructions, whatever becomes of the task.
  class Lock {
   public:
    explicit Lock(Mutex& mutex) : mutex_(mutex) { rubato_mutex_lock_always(mutex_.c()); }
    ~Lock() { mutex_.unlock(); }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

   private:
    Mutex& mutex_;
  };

  bool put(T&& value) {
    const Lock lock(mutex_);
    if (closed_) return false;
    values_[end_++ % values_.size()].emplace(std::move(value));
    filled_.release();
    return true;
  }
  std::optional<T> take() {
    const Lock lock(mutex_);
    std::optional<T> value = std::exchange(values_[begin_++ % values_.size()], std::nullopt);
    room_.release();
    return value;
  }

  Semaphore room_;
  Semaphore filled_;
  Mutex mutex_;  // guards the members below
  std::vector<std::optional<T>> values_;
  size_t begin_ = 0;
  size_t end_ = 0;
  bool closed_ = false;
};

// Runs `function` on a helper thread and waits for it: for calls that block. Its value, or its
// exception. The locals that it refers to stay, as the wait is not ended by a cancellation.
template <class F, class R = std::invoke_result_t<F&>>
R offload(F&& function) {
  struct Call {
    F& function;
    std::exception_ptr thrown;
    std::conditional_t<std::is_void_v<R>, std::array<char, 0>, std::optional<R>> value;

    static void run(void* self) noexcept {
      Call& call = *static_cast<Call*>(self);
      try {
        if constexpr (std::is_void_v<R>) call.function();
        else call.value.emplace(call.function());
      } catch (...) {
        call.thrown = std::current_exception();
      }
    }
  };
  Call call{function, {}, {}};
  if (!detail::waited(rubato_offload(&Call::run, &call))) Call::run(&call);
  if (call.thrown != nullptr) std::rethrow_exception(call.thrown);
  if constexpr (!std::is_void_v<R>) return std::move(*call.value);
}

}  // namespace rubato::inline v1
