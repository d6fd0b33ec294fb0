// SPDX-License-Identifier: Apache-2.0
#include "mechanism/preempt/timer.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "base/check.h"
#include "mechanism/preempt/signal.h"

namespace rubato {

Result<std::unique_ptr<WorkerTimer>> WorkerTimer::make() {
  struct sigevent event {};
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = interrupt_signal();
  event._sigev_un._tid = static_cast<pid_t>(::syscall(SYS_gettid));
  timer_t timer{};
  if (::timer_create(CLOCK_MONOTONIC, &event, &timer) != 0) {
    return Error{std::string("no timer of its own: ") + std::strerror(errno)};
  }
  return std::unique_ptr<WorkerTimer>(new WorkerTimer(timer));
}

Status WorkerTimer::available() {
  auto made = make();
  if (!made.ok()) return Error{made.error()};
  return Done{};
}

WorkerTimer::~WorkerTimer() { ::timer_delete(timer_); }

void WorkerTimer::arm(Nanos after) {
  constexpr int64_t kSecond = 1'000'000'000;
  const int64_t ns = std::max<int64_t>(after.count(), 1);
  struct itimerspec once {};
  once.it_value.tv_sec = ns / kSecond;
  once.it_value.tv_nsec = ns % kSecond;
  RUBATO_CHECK(::timer_settime(timer_, 0, &once, nullptr) == 0);
}

void WorkerTimer::disarm() {
  const struct itimerspec never {};
  RUBATO_CHECK(::timer_settime(timer_, 0, &never, nullptr) == 0);
}

}  // namespace rubato
