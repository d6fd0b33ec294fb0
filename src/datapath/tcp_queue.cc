// SPDX-License-Identifier: Apache-2.0
#include "datapath/tcp_queue.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "datapath/time_source.h"

namespace rubato {
namespace {

// A queue that was not polled for longer than this asks the kernel when its bytes arrived.
constexpr Nanos kLate = Nanos::micros(50);
// Every flow is looked at about once per round, a step at a time.
constexpr Nanos kSweepRound = Nanos::seconds(1);
constexpr Nanos kSweepStep = Nanos::millis(5);
constexpr size_t kSweepInPoll = 64;
constexpr size_t kSweepInWait = 4096;
constexpr Nanos kShrinkAfter = Nanos::seconds(2);

void bump(std::atomic<uint64_t>& counter, uint64_t n = 1) {
  counter.store(counter.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
}

int wait_events(int epoll, epoll_event* events, int most, Nanos limit) {
  if (limit <= Nanos(0)) return ::epoll_wait(epoll, events, most, 0);
  const int64_t ns = limit.count();
  const timespec t{ns / 1'000'000'000, ns % 1'000'000'000};
  const int n = ::epoll_pwait2(epoll, events, most, &t, nullptr);
  if (n >= 0 || errno != ENOSYS) return n;
  const int64_t ms = std::min<int64_t>((ns + 999'999) / 1'000'000, 60'000);
  return ::epoll_wait(epoll, events, most, static_cast<int>(ms));
}

}  // namespace

// Acquire pairs with release of the previous holder, whoever that was.
class TcpQueue::PollLock {
 public:
  explicit PollLock(std::atomic<bool>& flag) : flag_(flag) {
    held_ = !flag_.load(std::memory_order_relaxed) &&
            !flag_.exchange(true, std::memory_order_acquire);
  }
  ~PollLock() {
    if (held_) flag_.store(false, std::memory_order_release);
  }
  PollLock(const PollLock&) = delete;
  PollLock& operator=(const PollLock&) = delete;
  bool held() const { return held_; }

 private:
  std::atomic<bool>& flag_;
  bool held_;
};

TcpQueue::TcpQueue(TcpDatapath::Shared& shared) : shared_(shared) {
  host_.queue = this;
  host_.limits = shared.options.limits;
  host_.draining = &shared.draining;
}

TcpQueue::~TcpQueue() {
  std::vector<StreamFlow*> flows;
  registry_.visit([&](StreamFlow& flow) {
    flows.push_back(&flow);
    return true;
  });
  for (StreamFlow* flow : flows) delete flow;
}

Status TcpQueue::start(Fd listener) {
  epoll_ = Fd(::epoll_create1(EPOLL_CLOEXEC));
  event_ = Fd(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  reserve_ = Fd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  listener_ = std::move(listener);
  // Edge-triggered, each write to the eventfd is an event, and nobody ever needs to read it.
  epoll_event wake{EPOLLIN | EPOLLET, {.ptr = &event_}};
  epoll_event accept{EPOLLIN, {.ptr = &listener_}};
  if (!epoll_.valid() || !event_.valid() ||
      ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, event_.get(), &wake) != 0 ||
      ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, listener_.get(), &accept) != 0) {
    return Error{std::string("cannot set up epoll: ") + std::strerror(errno)};
  }
  last_poll_ = last_sweep_ = datapath_now();
  return Done{};
}

uint32_t TcpQueue::poll(std::span<Request*> out) {
  const PollLock lock(polling_);
  if (!lock.held()) return 0;
  const Instant now = datapath_now();
  const bool late = now - last_poll_ > kLate;
  last_poll_ = now;
  if (!remembers()) {
    reap();
    housekeep(now, kSweepInPoll);
  }
  uint32_t taken = take_yielded(out, now, late);
  bool more = true;
  while (taken < out.size()) {
    if (!remembers()) {
      if (!more) break;
      // One event is at most one request, so none of these will have to be remembered.
      const auto room = static_cast<uint32_t>(out.size()) - taken;
      more = harvest(std::min(room, kEventBurst), Nanos(0));
    }
    taken += take_events(out.subspan(taken), now, late);
  }
  note_unfinished();
  return taken;
}

// Leaves the line alone while nothing changes: other workers read it.
void TcpQueue::note_unfinished() {
  const bool unfinished = remembers() || yielded_ != nullptr;
  if (unfinished_.load(std::memory_order_relaxed) != unfinished) {
    unfinished_.store(unfinished, std::memory_order_relaxed);
  }
}

// True if the kernel may have more than it gave.
bool TcpQueue::harvest(uint32_t most, Nanos limit) {
  const int n = wait_events(epoll_.get(), events_.data(), static_cast<int>(most), limit);
  next_event_ = 0;
  event_count_ = n > 0 ? static_cast<uint32_t>(n) : 0;
  return n == static_cast<int>(most);
}

uint32_t TcpQueue::take_events(std::span<Request*> out, Instant now, bool late) {
  uint32_t taken = 0;
  while (taken < out.size() && remembers()) {
    if (Request* request = take_event(events_[next_event_++], now, late)) out[taken++] = request;
  }
  return taken;
}

Request* TcpQueue::take_event(const epoll_event& event, Instant now, bool late) {
  if (event.data.ptr == &event_) return nullptr;
  if (event.data.ptr == &listener_) {
    accept_burst(now);
    return nullptr;
  }
  auto& flow = *static_cast<TcpFlow*>(event.data.ptr);
  if ((event.events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) flow.note_peer_closed();
  return flow.on_event(now, late, event.events == EPOLLOUT);
}

uint32_t TcpQueue::take_yielded(std::span<Request*> out, Instant now, bool late) {
  if (yielded_ == nullptr) {
    yielded_ = host_.yielded.take_all();
    if (yielded_ == nullptr) return 0;
  }
  uint32_t taken = 0;
  while (yielded_ != nullptr && taken < out.size()) {
    StreamFlow* flow = std::exchange(yielded_, yielded_->next_in_list);
    if (Request* request = flow->resume(now, late)) out[taken++] = request;
  }
  return taken;
}

// Frees closed flows. Requires that no event is remembered: the last batch may have named them.
void TcpQueue::reap() {
  StreamFlow* flow = host_.closed.take_all();
  while (flow != nullptr) {
    StreamFlow* next = flow->next_in_list;
    registry_.remove(*flow);
    delete flow;  // closes the socket, which takes it out of epoll
    shared_.open_flows.fetch_sub(1, std::memory_order_relaxed);
    flow = next;
  }
}

void TcpQueue::housekeep(Instant now, size_t most) {
  SweepRule rule;
  rule.draining = shared_.draining.load(std::memory_order_relaxed);
  if (rule.draining) {
    leave_listener();
    registry_.sweep(~size_t{0}, now, rule);
    return;
  }
  const Nanos since = now - last_sweep_;
  if (since < kSweepStep) return;
  last_sweep_ = now;
  if (accept_again_ != Instant() && now >= accept_again_) {
    accept_again_ = Instant();
    epoll_event accept{EPOLLIN, {.ptr = &listener_}};
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, listener_.get(), &accept);
  }
  rule.idle_timeout = Nanos(shared_.idle_timeout_ns.load(std::memory_order_relaxed));
  rule.shrink_after = kShrinkAfter;
  const double share = std::min(1.0, since.seconds() / kSweepRound.seconds());
  const auto due = static_cast<size_t>(share * static_cast<double>(registry_.size())) + 1;
  bump(timed_out_, registry_.sweep(std::min(due, most), now, rule));
}

bool TcpQueue::pending() const {
  if (unfinished_.load(std::memory_order_relaxed) || !host_.yielded.empty()) return true;
  pollfd p{epoll_.get(), POLLIN, 0};
  return ::poll(&p, 1, 0) > 0;
}

void TcpQueue::wait(Nanos limit) {
  const PollLock lock(polling_);
  if (!lock.held() || remembers() || yielded_ != nullptr || !host_.yielded.empty()) return;
  reap();
  housekeep(datapath_now(), kSweepInWait);
  // The sweep must go on while anybody is connected.
  if (shared_.open_flows.load(std::memory_order_relaxed) > 0) limit = std::min(limit, kSweepRound);
  waiting_.store(true, std::memory_order_seq_cst);
  if (!woken_.load(std::memory_order_seq_cst)) harvest(kEventBurst, limit);
  waiting_.store(false, std::memory_order_relaxed);
  woken_.exchange(false, std::memory_order_acq_rel);
  note_unfinished();
  last_poll_ = datapath_now();
}

void TcpQueue::wake() {
  if (woken_.exchange(true, std::memory_order_seq_cst)) return;
  if (!waiting_.load(std::memory_order_seq_cst)) return;
  const uint64_t one = 1;
  // Fails only when the counter is full of wakes that nobody needed to read; each was an event.
  [[maybe_unused]] const ssize_t n = ::write(event_.get(), &one, sizeof one);
}

void TcpQueue::drain() {
  ::shutdown(listener_.get(), SHUT_RDWR);
  wake();
}

void TcpQueue::add_to(DatapathStats& stats) const {
  registry_.add_to(stats);
  stats.flows_refused += refused_.load(std::memory_order_relaxed);
  stats.flows_timed_out += timed_out_.load(std::memory_order_relaxed);
  stats.flows_overflowed += host_.overflowed.load(std::memory_order_relaxed);
  stats.flows_input_limit += host_.input_limit.load(std::memory_order_relaxed);
}

}  // namespace rubato
