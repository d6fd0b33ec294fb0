// SPDX-License-Identifier: Apache-2.0
#include "datapath/queue_sleep.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <string>

#include "base/timespec.h"
#include "datapath/time_source.h"

namespace rubato {

Status QueueSleep::start(WireQueue& queue) {
  queue_ = &queue;
  event_ = Fd(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!event_.valid()) return Error{std::string("cannot make an eventfd: ") + std::strerror(errno)};
  files_.assign(1, {event_.get(), POLLIN, 0});
  for (const int file : queue.files()) files_.push_back({file, POLLIN, 0});
  return Done{};
}

bool QueueSleep::may_sleep() {
  queue_->push();
  return !queue_->has_left_over() && (queue_->can_sleep() || queue_->nap() > Nanos());
}

Nanos QueueSleep::longest(Nanos limit) const {
  const Nanos nap = queue_->nap();
  const bool may_sleep = queue_->can_sleep() && nap == Nanos();
  return std::max(may_sleep ? limit : std::min(limit, nap), Nanos());
}

// True: something has come.
bool QueueSleep::busy_poll(Nanos limit) {
  const Nanos length = std::min(queue_->busy_poll(), limit);
  if (length <= Nanos()) return false;
  const Instant end = datapath_now() + length;
  do {
    queue_->look_at_card();
    if (::poll(files_.data(), files_.size(), 0) > 0) return true;
  } while (datapath_now() < end);
  return false;
}

void QueueSleep::wait(Nanos limit, std::span<const int> others) {
  const size_t own = files_.size();
  for (const int file : others) files_.push_back({file, POLLIN, 0});
  const timespec time = timespec_of(limit);
  files_.front().revents = 0;
  if (wake_token_.begin_wait() && !busy_poll(limit)) {
    ::ppoll(files_.data(), files_.size(), &time, nullptr);
  }
  files_.resize(own);
  wake_token_.end_wait();
  if (files_.front().revents == 0) return;  // of a wake() since then the next wait() hears
  uint64_t wakes = 0;
  [[maybe_unused]] const ssize_t n = ::read(event_.get(), &wakes, sizeof wakes);
}

void QueueSleep::wake() {
  if (!wake_token_.wake()) return;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = ::write(event_.get(), &one, sizeof one);
}

}  // namespace rubato
