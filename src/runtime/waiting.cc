// SPDX-License-Identifier: Apache-2.0
#include "runtime/waiting.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <ctime>

#include "base/timespec.h"
#include "mechanism/clock/clock.h"
#include "runtime/app.h"
#include "runtime/current_worker.h"
#include "runtime/wait_port.h"

namespace rubato::waiting {
namespace {

// Of the worker that the caller is a request on; null elsewhere.
WaitPort* port_here() {
  const PreemptDisableGuard no_preemption;
  CurrentWorker* const worker = current_worker();
  const bool is_request = worker != nullptr && worker->in_application();
  return is_request ? &worker->waits() : nullptr;
}

Wake poll_on_thread(int fd, uint32_t events, Instant deadline, uint32_t& came, int& error) {
  for (;;) {
    pollfd p{fd, static_cast<short>(events), 0};
    const timespec time = timespec_of(std::max(deadline - now(), Nanos()));
    const int count = ::ppoll(&p, 1, deadline == Instant::never() ? nullptr : &time, nullptr);
    if (count == 0) return Wake::kTimeout;
    error = count > 0 ? 0 : errno;
    came = static_cast<uint32_t>(p.revents);
    if ((came & POLLNVAL) != 0) error = EBADF;
    if (error == EINTR) continue;
    return error == 0 ? Wake::kWoken : Wake::kRefused;
  }
}

}  // namespace

bool is_waited_for_here(const Request& request) {
  return port_here() != nullptr && current_request() == &request;
}

Wake sleep(const WaitLimit& limit) {
  Waiter waiter;
  return waiter.wait(limit);
}

Wake wait_fd(int fd, uint32_t events, const WaitLimit& limit, uint32_t& came, int& error) {
  WaitPort* const port = port_here();
  if (port == nullptr) return poll_on_thread(fd, events, limit.deadline, came, error);
  Waiter waiter;
  const PreemptDisableGuard no_preemption;  // as in WaitQueue::wait()
  error = port->reactor().watch(waiter, fd, events);
  if (error != 0) {
    came = events;
    return error == EPERM ? Wake::kWoken : Wake::kRefused;
  }
  const Wake why = waiter.wait(limit);
  port->reactor().unwatch(waiter);
  came = why == Wake::kWoken ? waiter.events : 0;
  if (why == Wake::kRefused) error = EAGAIN;
  return why;
}

bool offload(void (*call)(void* user), void* user) {
  if (WaitPort* const port = port_here()) return port->waits().helpers().run(call, user);
  call(user);
  return true;
}

}  // namespace rubato::waiting
