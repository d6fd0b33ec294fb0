// SPDX-License-Identifier: Apache-2.0
#include "runtime/reactor.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>
#include <new>

#include "base/timespec.h"
#include "mechanism/clock/clock.h"

namespace rubato {
namespace {

constexpr int kAlarm = -1;  // in place of a descriptor
// The longest sleep: times further away are too far for the kernel.
constexpr Nanos kLongest = Nanos::seconds(int64_t{10} * 365 * 24 * 3600);
// The kernel's clock may run faster than ours by less than this part.
constexpr int64_t kClocksDiffer = 1024;

static_assert(POLLIN == EPOLLIN && POLLOUT == EPOLLOUT && POLLPRI == EPOLLPRI);
static_assert(POLLERR == EPOLLERR && POLLHUP == EPOLLHUP && POLLRDHUP == EPOLLRDHUP);

Nanos left_until(Instant at) {
  if (at == Instant::never()) return kLongest;
  return std::clamp(at - now(), Nanos(), kLongest);
}

}  // namespace

// ---- Timers ---------------------------------------------------------------------------------

bool Reactor::add(Waiter& waiter, Instant deadline) {
  const std::scoped_lock lock(lock_);
  if (!open()) return false;
  timers_.push(waiter, deadline);
  if (timers_.first() == &waiter) set_alarm(deadline);
  return true;
}

void Reactor::remove(Waiter& waiter) {
  const std::scoped_lock lock(lock_);
  if (timers_.has(waiter)) timers_.erase(waiter);
}

// Locked. A thread in serve() is woken only from a sleep that would be too long.
void Reactor::set_alarm(Instant at) {
  if (in_loop_) {
    const Nanos left = left_until(at);
    next_ns_.store((at - left / kClocksDiffer).ns(), std::memory_order_relaxed);
    itimerspec time{};
    time.it_value = timespec_of(std::max(left, Nanos(1)));
    ::timerfd_settime(alarm_.get(), 0, &time, nullptr);
  } else if (at < sleeps_until_) {
    sleeps_until_ = Instant();
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t n = ::write(alarm_.get(), &one, sizeof one);
  }
}

void Reactor::clear_alarm() {
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t n = ::read(alarm_.get(), &count, sizeof count);
}

void Reactor::fire() {
  Claimed claimed;
  const std::scoped_lock lock(lock_);
  const Instant at = now();
  while (timers_.next() <= at) {
    Waiter& due = *timers_.first();
    timers_.erase(due);
    static_cast<void>(claimed.claim(due, Wake::kTimeout));
  }
  if (!in_loop_) return;
  timers_.empty() ? next_ns_.store(Instant::never().ns(), std::memory_order_relaxed)
                  : set_alarm(timers_.next());
}

// ---- Descriptors ----------------------------------------------------------------------------

int Reactor::watch(Waiter& waiter, int fd, uint32_t events) try {
  if (fd < 0) return EBADF;
  const std::scoped_lock lock(lock_);
  if (!open()) return EMFILE;
  const auto index = static_cast<size_t>(fd);
  if (index >= watched_.size()) watched_.resize(std::max(index + 1, 2 * watched_.size()));
  waiter.fd = fd;
  waiter.events = events;
  watched_[index].push_back(waiter);
  const int error = arm(fd);
  if (error != 0) watched_[index].erase(waiter);
  if (error == 0) watching_.fetch_add(1, std::memory_order_relaxed);
  return error;
} catch (const std::bad_alloc&) {
  return ENOMEM;
}

void Reactor::unwatch(Waiter& waiter) {
  const std::scoped_lock lock(lock_);
  watching_.fetch_sub(1, std::memory_order_relaxed);
  if (!Watched::has(waiter)) return;
  waiter.events = 0;
  watched_[static_cast<size_t>(waiter.fd)].erase(waiter);
  static_cast<void>(arm(waiter.fd));
}

// Locked: has the kernel report the events that are waited for, once. Returns 0 or an errno.
int Reactor::arm(int fd) {
  epoll_event wanted{};
  wanted.data.fd = fd;
  const Watched& waiters = watched_[static_cast<size_t>(fd)];
  for (const Waiter* waiter = waiters.first(); waiter != nullptr; waiter = waiters.next(*waiter)) {
    wanted.events |= waiter->events;
  }
  if (waiters.empty()) {
    return ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr) == 0 ? 0 : errno;
  }
  wanted.events |= EPOLLONESHOT;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &wanted) == 0) return 0;
  if (errno != EEXIST) return errno;
  return ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &wanted) == 0 ? 0 : errno;
}

// Locked.
void Reactor::came(int fd, uint32_t events, Claimed& claimed) {
  Watched& waiters = watched_[static_cast<size_t>(fd)];
  constexpr uint32_t kAlways = EPOLLERR | EPOLLHUP;
  for (Waiter* waiter = waiters.first(); waiter != nullptr;) {
    Waiter& one = *std::exchange(waiter, waiters.next(*waiter));
    if ((events & (one.events | kAlways)) == 0) continue;
    waiters.erase(one);
    one.events = events & (one.events | kAlways);
    static_cast<void>(claimed.claim(one, Wake::kWoken));
  }
  static_cast<void>(arm(fd));
}

// ---- Service --------------------------------------------------------------------------------

// Locked.
bool Reactor::open() {
  if (alarm_.valid()) return true;
  epoll_ = Fd(::epoll_create1(EPOLL_CLOEXEC));
  alarm_ = Fd(in_loop_ ? ::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)
                       : ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = kAlarm;
  const bool opened = epoll_.valid() && alarm_.valid() &&
                      ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, alarm_.get(), &event) == 0;
  if (!opened) {
    alarm_ = Fd();
    return false;
  }
  State unused = State::kUnused;
  state_.compare_exchange_strong(unused, State::kUsed, std::memory_order_seq_cst,
                                 std::memory_order_relaxed);
  state_.notify_all();
  return true;
}

// False: it has stopped.
bool Reactor::goes_on(Instant& until) {
  const std::scoped_lock lock(lock_);
  until = sleeps_until_ = timers_.next();
  return state_.load(std::memory_order_acquire) != State::kStopped;
}

void Reactor::serve() {
  state_.wait(State::kUnused, std::memory_order_acquire);
  for (Instant until; goes_on(until); fire()) wait_for_events(until);
}

void Reactor::stop() {
  const State before = state_.exchange(State::kStopped, std::memory_order_seq_cst);
  state_.notify_all();
  if (before == State::kUnused) return;
  const std::scoped_lock lock(lock_);
  if (!in_loop_) set_alarm(Instant(1));
}

int Reactor::open_for_loop() {
  const std::scoped_lock lock(lock_);
  in_loop_ = true;
  return open() ? epoll_.get() : -1;
}

void Reactor::poll() {
  const bool due = now().ns() >= next_ns_.load(std::memory_order_relaxed);
  if (!due && watching_.load(std::memory_order_relaxed) == 0) return;
  wait_for_events(Instant());
  fire();
}

void Reactor::wait_for_events(Instant until) {
  constexpr int kEvents = 64;
  std::array<epoll_event, kEvents> events;
  const timespec limit = timespec_of(left_until(until));
  const int count = ::epoll_pwait2(epoll_.get(), events.data(), kEvents, &limit, nullptr);
  Claimed claimed;
  const std::scoped_lock lock(lock_);
  sleeps_until_ = Instant();
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<size_t>(i)];
    event.data.fd == kAlarm ? clear_alarm() : came(event.data.fd, event.events, claimed);
  }
}

}  // namespace rubato
