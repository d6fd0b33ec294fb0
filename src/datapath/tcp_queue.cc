// SPDX-License-Identifier: Apache-2.0
#include "datapath/tcp_queue.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <thread>

#include "base/timespec.h"
#include "datapath/time_source.h"

namespace rubato {
namespace {

constexpr std::chrono::microseconds kPollBySomebodyElse{100};

int wait_events(int epoll, epoll_event* events, int most, Nanos limit) {
  if (limit <= Nanos(0)) return ::epoll_wait(epoll, events, most, 0);
  const int64_t ns = limit.count();
  const timespec t = timespec_of(limit);
  const int n = ::epoll_pwait2(epoll, events, most, &t, nullptr);
  if (n >= 0 || errno != ENOSYS) return n;
  const int64_t ms = std::min<int64_t>((ns + 999'999) / 1'000'000, 60'000);
  return ::epoll_wait(epoll, events, most, static_cast<int>(ms));
}

}  // namespace

TcpQueue::TcpQueue(TcpDatapath::Shared& shared)
    : shared_(shared), owner_queue_(*this, shared.index, shared.options.limits, shared.draining) {}

// Has epoll report the listeners from now on. True if all are registered, also those that were
// before.
bool TcpQueue::hear_listeners() {
  bool heard = true;
  for (Fd& listener : listeners_) {
    epoll_event accept{shares_listeners() ? EPOLLIN | EPOLLEXCLUSIVE : EPOLLIN, {.ptr = &listener}};
    heard &= ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, listener.get(), &accept) == 0 ||
             errno == EEXIST;
  }
  return heard;
}

Status TcpQueue::start(std::vector<Fd> listeners) {
  epoll_ = Fd(::epoll_create1(EPOLL_CLOEXEC));
  event_ = Fd(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  reserve_ = Fd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  listeners_ = std::move(listeners);
  // Edge-triggered: each write to the eventfd is an event, and no thread ever needs to read it.
  epoll_event wake{EPOLLIN | EPOLLET, {.ptr = &event_}};
  if (!epoll_.valid() || !event_.valid() ||
      ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, event_.get(), &wake) != 0 ||
      !hear_listeners()) {
    return Error{std::string("cannot set up epoll: ") + std::strerror(errno)};
  }
  last_poll_ = datapath_now();
  sends_in_place_ = shared_.options.zerocopy_above > 0 && allow_in_place();
  return use_busy_poll(shared_.options.busy_poll);
}

bool TcpQueue::allow_in_place() {
  return std::all_of(listeners_.begin(), listeners_.end(),
                     [](const Fd& listener) { return allow_sends_in_place(listener.get()); });
}

Status TcpQueue::use_busy_poll(Nanos length) {
  if (length == Nanos()) return Done{};
  for (const Fd& listener : listeners_) {
    if (Status set = set_busy_poll(listener.get(), length); !set.ok()) return set;
  }
  return set_busy_wait(epoll_.get(), length);
}

// As an event of nobody, which a poll passes over.
bool TcpQueue::watch_guest(int file) {
  epoll_event readable{EPOLLIN, {.ptr = &event_}};
  return ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, file, &readable) == 0;
}

uint32_t TcpQueue::poll(std::span<Request*> out) {
  const OwnerQueue::PollLock lock(owner_queue_);
  if (!lock.held()) return 0;
  const Instant now = datapath_now();
  const bool late = now - last_poll_ > kLateLook || (left_some_ && shared_.options.date_backlog);
  last_poll_ = now;
  if (!remembers()) {
    reap();
    housekeep(now, OwnerQueue::kSweepInPoll);
  }
  uint32_t taken = owner_queue_.take_yielded(out, now, late);
  uint32_t looks = kLooksPerPoll;
  handshakes_ = 0;
  while (taken < out.size() && handshakes_ < kHandshakesPerPoll) {
    if (!remembers()) {
      if (looks == 0) break;
      // One event is mostly one request, so few events will have to be remembered.
      const auto room = static_cast<uint32_t>(out.size()) - taken;
      const bool more = harvest(std::min(room, kEventBurst), Nanos(0));
      looks = more ? looks - 1 : 0;
    }
    taken += take_events(out.subspan(taken), now, late);
  }
  note_unfinished();
  left_some_ = taken == out.size() || remembers();
  return taken;
}

// Does not write the cache line while nothing changes: other workers read it.
void TcpQueue::note_unfinished() {
  const bool unfinished = remembers();
  if (unfinished_.load(std::memory_order_relaxed) != unfinished) {
    unfinished_.store(unfinished, std::memory_order_relaxed);
  }
}

// Takes events from the kernel. True if the kernel may have more.
bool TcpQueue::harvest(uint32_t most, Nanos limit) {
  const int n = wait_events(epoll_.get(), events_.data(), static_cast<int>(most), limit);
  next_event_ = 0;
  event_count_ = n > 0 ? static_cast<uint32_t>(n) : 0;
  return n == static_cast<int>(most);
}

uint32_t TcpQueue::take_events(std::span<Request*> out, Instant now, bool late) {
  uint32_t taken = 0;
  while (taken < out.size() && may_take_event()) {
    taken += take_event(events_[next_event_++], out.subspan(taken), now, late);
  }
  return taken;
}

uint32_t TcpQueue::take_event(const epoll_event& event, std::span<Request*> out, Instant now,
                              bool late) {
  if (event.data.ptr == &event_) return 0;
  for (uint32_t port = 0; port < listeners_.size(); ++port) {
    if (event.data.ptr != &listeners_[port]) continue;
    accept_burst(port, now);
    return 0;
  }
  auto& flow = *static_cast<TcpFlow*>(event.data.ptr);
  const uint32_t events = flow.without_reports(event.events);
  if ((events & (EPOLLHUP | EPOLLERR)) != 0) {
    flow.note_client(ClientState::kGone);
  } else if ((events & EPOLLRDHUP) != 0) {
    flow.note_client(ClientState::kHalfClosed);
  }
  const bool no_input = (events & ~uint32_t{EPOLLOUT}) == 0;
  if (flow.opening() && !no_input) ++handshakes_;
  return flow.on_event(owner_queue_.host(), out, now, late, no_input);
}

void TcpQueue::look_at_client(Request& request) {
  auto& flow = static_cast<TcpFlow&>(StreamFlow::of(request));
  pollfd p{flow.fd(), POLLRDHUP, 0};
  if (::poll(&p, 1, 0) <= 0) return;
  const uint32_t events = flow.without_reports(static_cast<uint32_t>(p.revents));
  if (events == 0) return;
  const bool gone = (events & (EPOLLHUP | EPOLLERR)) != 0;
  flow.note_client(gone ? ClientState::kGone : ClientState::kHalfClosed);
}

bool TcpQueue::watch(TcpFlow& flow) {
  epoll_event events{EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, {.ptr = &flow}};
  return ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, flow.fd(), &events) == 0;
}

void TcpQueue::unwatch(const TcpFlow& flow) {
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, flow.fd(), nullptr);
}

// Frees closed flows. Requires that no event is remembered: the last batch may have named them.
void TcpQueue::reap() {
  const uint32_t freed = owner_queue_.reap();
  if (freed > 0) shared_.open_flows.fetch_sub(freed, std::memory_order_relaxed);
}

void TcpQueue::housekeep(Instant now, size_t most) {
  if (leaving()) {
    leave_listeners();
  } else if (accept_again_ != Instant() && now >= accept_again_) {
    accept_again_ = Instant();
    hear_listeners();
  }
  owner_queue_.sweep(now, most, Nanos(shared_.idle_timeout_ns.load(std::memory_order_relaxed)));
}

bool TcpQueue::pending() const {
  if (unfinished_.load(std::memory_order_relaxed) || owner_queue_.may_have_yielded()) return true;
  pollfd p{epoll_.get(), POLLIN, 0};
  return ::poll(&p, 1, 0) > 0;
}

void TcpQueue::wait(Nanos limit, std::span<DatapathQueue* const> delegated) {
  const OwnerQueue::PollLock lock(owner_queue_);
  // Another worker polls for this one, and may have no CPU at the moment.
  if (!lock.held()) return std::this_thread::sleep_for(kPollBySomebodyElse);
  if (remembers() || owner_queue_.has_yielded()) return;
  reap();
  housekeep(datapath_now(), OwnerQueue::kSweepInWait);
  // The sweep must go on while a client is connected or a listener waits to be heard again.
  const bool sweeping = shared_.open_flows.load(std::memory_order_relaxed) > 0;
  if (sweeping || accept_again_ != Instant()) limit = std::min(limit, OwnerQueue::kSweepRound);
  if (wake_token_.begin_wait()) {
    if (delegated.empty()) {
      harvest(kEventBurst, limit);
    } else {
      sleep_as_proxy(delegated, limit);
    }
  }
  wake_token_.end_wait();
  note_unfinished();
  last_poll_ = datapath_now();
}

// Only waits; the polls that follow take the events.
void TcpQueue::sleep_as_proxy(std::span<DatapathQueue* const> delegated, Nanos limit) {
  std::array<pollfd, limits::kMaxWorkers> ready;
  size_t count = 0;
  ready[count++] = {epoll_.get(), POLLIN, 0};
  for (DatapathQueue* queue : delegated) {
    ready[count++] = {static_cast<TcpQueue*>(queue)->epoll_.get(), POLLIN, 0};
  }
  const timespec t = timespec_of(limit);
  ::ppoll(ready.data(), count, &t, nullptr);
}

bool TcpQueue::delegate_to(DatapathQueue* proxy) {
  wake_token_.delegate_to(proxy);
  return true;
}

void TcpQueue::wake() {
  if (!wake_token_.wake()) return;
  const uint64_t one = 1;
  // Fails only when the counter is full of wakes that no thread needed to read; each was an event.
  [[maybe_unused]] const ssize_t n = ::write(event_.get(), &one, sizeof one);
}

void TcpQueue::drain() {
  for (const Fd& listener : listeners_) {
    if (!shares_listeners()) ::shutdown(listener.get(), SHUT_RDWR);
  }
  wake();
}

void TcpQueue::add_to(DatapathStats& stats) const {
  owner_queue_.add_to(stats);
  stats.flows_refused += refused_.load(std::memory_order_relaxed);
}

}  // namespace rubato
