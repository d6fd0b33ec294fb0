// SPDX-License-Identifier: Apache-2.0
//
// System calls that a signal ends with EINTR even where its handler wants them restarted: see
// signal(7). In a request that the runtime has interrupted they are made again, for the rest of
// their time; other signals end them. Those of sockets are in transfers.cc.
#include <poll.h>
#include <sys/epoll.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

#include "mechanism/preempt/interpose/interrupted.h"
#include "mechanism/preempt/interpose/next.h"

// With _FORTIFY_SOURCE poll and ppoll are these; no header declares them otherwise.
extern "C" int __poll_chk(pollfd* fds, nfds_t count, int timeout_ms, size_t bytes);
extern "C" int __ppoll_chk(pollfd* fds, nfds_t count, const timespec* timeout, const sigset_t* mask,
                           size_t bytes);

namespace {

using rubato::interpose::may_be_interrupted;
using rubato::interpose::SeenInterrupts;
using rubato::interpose::TimeLeft;

RUBATO_NEXT(poll);
RUBATO_NEXT(__poll_chk);
RUBATO_NEXT(ppoll);
RUBATO_NEXT(__ppoll_chk);
RUBATO_NEXT(select);
RUBATO_NEXT(pselect);
RUBATO_NEXT(epoll_wait);
RUBATO_NEXT(epoll_pwait);
RUBATO_NEXT(epoll_pwait2);
RUBATO_NEXT(nanosleep);
RUBATO_NEXT(clock_nanosleep);
RUBATO_NEXT(usleep);
RUBATO_NEXT(sleep);
RUBATO_NEXT(thrd_sleep);
RUBATO_NEXT(pause);
RUBATO_NEXT(sigsuspend);
RUBATO_NEXT(sigwaitinfo);
RUBATO_NEXT(sigtimedwait);
RUBATO_NEXT(semop);
RUBATO_NEXT(semtimedop);
RUBATO_NEXT(msgsnd);
RUBATO_NEXT(msgrcv);

// `call` answers -1 with an errno. What it waits for, it waits for from the start each time.
template <class Call>
auto again(Call call) {
  for (;;) {
    const SeenInterrupts seen;
    const auto rc = call();
    if (!seen.ended(rc)) return rc;
  }
}

constexpr int64_t kNanosPerMilli = 1'000'000;

// The same in milliseconds; negative: it has no end.
class MillisLeft {
 public:
  explicit MillisLeft(int millis)
      : given_{millis / 1000, millis % 1000 * kNanosPerMilli},
        left_(millis < 0 ? nullptr : &given_) {}
  MillisLeft(const MillisLeft&) = delete;
  MillisLeft& operator=(const MillisLeft&) = delete;

  int get() {
    const timespec* const left = left_.get();
    if (left == nullptr) return -1;
    return static_cast<int>(left->tv_sec * 1000 +
                            (left->tv_nsec + kNanosPerMilli - 1) / kNanosPerMilli);
  }

 private:
  const timespec given_;
  TimeLeft left_;
};

// clock_nanosleep() of a request, which answers an error number. `left` is never null.
int sleep_again(clockid_t clock, int flags, const timespec& time, timespec& left) {
  timespec next = time;
  for (;;) {
    const SeenInterrupts seen;
    const int error = next_clock_nanosleep.get()(clock, flags, &next, &left);
    if (error != EINTR || !seen.more()) return error;
    if ((flags & TIMER_ABSTIME) == 0) next = left;
  }
}

int sleep_for(const timespec& time, timespec& left) {
  const int error = sleep_again(CLOCK_MONOTONIC, 0, time, left);
  if (error == 0) return 0;
  errno = error;
  return -1;
}

}  // namespace

RUBATO_INTERPOSED int poll(pollfd* fds, nfds_t count, int timeout_ms) {
  if (timeout_ms == 0 || !may_be_interrupted()) return next_poll.get()(fds, count, timeout_ms);
  MillisLeft left(timeout_ms);
  return again([&] { return next_poll.get()(fds, count, left.get()); });
}

RUBATO_INTERPOSED int __poll_chk(pollfd* fds, nfds_t count, int timeout_ms, size_t bytes) {
  if (timeout_ms == 0 || !may_be_interrupted()) {
    return next___poll_chk.get()(fds, count, timeout_ms, bytes);
  }
  MillisLeft left(timeout_ms);
  return again([&] { return next___poll_chk.get()(fds, count, left.get(), bytes); });
}

RUBATO_INTERPOSED int ppoll(pollfd* fds, nfds_t count, const timespec* timeout,
                            const sigset_t* mask) {
  if (!may_be_interrupted()) return next_ppoll.get()(fds, count, timeout, mask);
  TimeLeft left(timeout);
  return again([&] { return next_ppoll.get()(fds, count, left.get(), mask); });
}

RUBATO_INTERPOSED int __ppoll_chk(pollfd* fds, nfds_t count, const timespec* timeout,
                                  const sigset_t* mask, size_t bytes) {
  if (!may_be_interrupted()) return next___ppoll_chk.get()(fds, count, timeout, mask, bytes);
  TimeLeft left(timeout);
  return again([&] { return next___ppoll_chk.get()(fds, count, left.get(), mask, bytes); });
}

// The kernel writes what is left into `timeout`, and leaves the sets as they are.
RUBATO_INTERPOSED int select(int count, fd_set* read, fd_set* write, fd_set* except,
                             timeval* timeout) {
  if (!may_be_interrupted()) return next_select.get()(count, read, write, except, timeout);
  return again([&] { return next_select.get()(count, read, write, except, timeout); });
}

RUBATO_INTERPOSED int pselect(int count, fd_set* read, fd_set* write, fd_set* except,
                              const timespec* timeout, const sigset_t* mask) {
  if (!may_be_interrupted()) return next_pselect.get()(count, read, write, except, timeout, mask);
  TimeLeft left(timeout);
  return again([&] { return next_pselect.get()(count, read, write, except, left.get(), mask); });
}

RUBATO_INTERPOSED int epoll_wait(int epoll, epoll_event* events, int most, int timeout_ms) {
  if (timeout_ms == 0 || !may_be_interrupted()) {
    return next_epoll_wait.get()(epoll, events, most, timeout_ms);
  }
  MillisLeft left(timeout_ms);
  return again([&] { return next_epoll_wait.get()(epoll, events, most, left.get()); });
}

RUBATO_INTERPOSED int epoll_pwait(int epoll, epoll_event* events, int most, int timeout_ms,
                                  const sigset_t* mask) {
  if (timeout_ms == 0 || !may_be_interrupted()) {
    return next_epoll_pwait.get()(epoll, events, most, timeout_ms, mask);
  }
  MillisLeft left(timeout_ms);
  return again([&] { return next_epoll_pwait.get()(epoll, events, most, left.get(), mask); });
}

RUBATO_INTERPOSED int epoll_pwait2(int epoll, epoll_event* events, int most,
                                   const timespec* timeout, const sigset_t* mask) {
  if (!may_be_interrupted()) return next_epoll_pwait2.get()(epoll, events, most, timeout, mask);
  TimeLeft left(timeout);
  return again([&] { return next_epoll_pwait2.get()(epoll, events, most, left.get(), mask); });
}

RUBATO_INTERPOSED int nanosleep(const timespec* time, timespec* left) {
  if (!may_be_interrupted()) return next_nanosleep.get()(time, left);
  timespec rest{};
  return sleep_for(*time, left != nullptr ? *left : rest);
}

RUBATO_INTERPOSED int clock_nanosleep(clockid_t clock, int flags, const timespec* time,
                                      timespec* left) {
  if (!may_be_interrupted()) return next_clock_nanosleep.get()(clock, flags, time, left);
  timespec rest{};
  return sleep_again(clock, flags, *time, left != nullptr ? *left : rest);
}

RUBATO_INTERPOSED int usleep(useconds_t micros) {
  if (!may_be_interrupted()) return next_usleep.get()(micros);
  timespec rest{};
  return sleep_for({micros / 1'000'000, micros % 1'000'000 * 1000}, rest);
}

// Answers the seconds that are left.
RUBATO_INTERPOSED unsigned sleep(unsigned seconds) {
  if (!may_be_interrupted()) return next_sleep.get()(seconds);
  timespec rest{};
  return sleep_for({seconds, 0}, rest) == 0 ? 0 : static_cast<unsigned>(rest.tv_sec);
}

RUBATO_INTERPOSED int thrd_sleep(const timespec* time, timespec* left) {
  if (!may_be_interrupted()) return next_thrd_sleep.get()(time, left);
  timespec rest{};
  const int error = sleep_again(CLOCK_REALTIME, 0, *time, left != nullptr ? *left : rest);
  if (error == 0) return 0;
  return error == EINTR ? -1 : -2;
}

RUBATO_INTERPOSED int pause() {
  if (!may_be_interrupted()) return next_pause.get()();
  return again([] { return next_pause.get()(); });
}

RUBATO_INTERPOSED int sigsuspend(const sigset_t* mask) {
  if (!may_be_interrupted()) return next_sigsuspend.get()(mask);
  return again([=] { return next_sigsuspend.get()(mask); });
}

RUBATO_INTERPOSED int sigwaitinfo(const sigset_t* signals, siginfo_t* info) {
  if (!may_be_interrupted()) return next_sigwaitinfo.get()(signals, info);
  return again([=] { return next_sigwaitinfo.get()(signals, info); });
}

RUBATO_INTERPOSED int sigtimedwait(const sigset_t* signals, siginfo_t* info,
                                   const timespec* timeout) {
  if (!may_be_interrupted()) return next_sigtimedwait.get()(signals, info, timeout);
  TimeLeft left(timeout);
  return again([&] { return next_sigtimedwait.get()(signals, info, left.get()); });
}

RUBATO_INTERPOSED int semop(int set, sembuf* operations, size_t count) noexcept {
  if (!may_be_interrupted()) return next_semop.get()(set, operations, count);
  return again([=] { return next_semop.get()(set, operations, count); });
}

RUBATO_INTERPOSED int semtimedop(int set, sembuf* operations, size_t count,
                                 const timespec* timeout) noexcept {
  if (!may_be_interrupted()) return next_semtimedop.get()(set, operations, count, timeout);
  TimeLeft left(timeout);
  return again([&] { return next_semtimedop.get()(set, operations, count, left.get()); });
}

RUBATO_INTERPOSED int msgsnd(int queue, const void* message, size_t bytes, int flags) {
  if (!may_be_interrupted()) return next_msgsnd.get()(queue, message, bytes, flags);
  return again([=] { return next_msgsnd.get()(queue, message, bytes, flags); });
}

RUBATO_INTERPOSED ssize_t msgrcv(int queue, void* message, size_t bytes, long type, int flags) {
  if (!may_be_interrupted()) return next_msgrcv.get()(queue, message, bytes, type, flags);
  return again([=] { return next_msgrcv.get()(queue, message, bytes, type, flags); });
}
