// SPDX-License-Identifier: Apache-2.0
#include "datapath/loopback_queue.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace rubato {

LoopbackQueue::LoopbackQueue(LoopbackDatapath::Shared& shared, uint32_t index)
    : shared_(shared),
      owner_queue_(*this, shared.index, shared.options.limits, shared.draining),
      dice_(shared.options.seed + index) {}

bool LoopbackQueue::faulty() const {
  const LoopbackOptions& o = shared_.options;
  return o.loss > 0 || o.reorder > 0 || o.delay_max > Nanos(0);
}

uint32_t LoopbackQueue::poll(std::span<Request*> out) {
  const OwnerQueue::PollLock lock(owner_queue_);
  if (!lock.held()) return 0;
  const Instant now = shared_.options.now();
  owner_queue_.reap();
  owner_queue_.sweep(now, OwnerQueue::kSweepInPoll, shared_.options.idle_timeout);
  deliver_due(now);
  uint32_t taken = owner_queue_.take_yielded(out, now, false);
  // Only the events that were there at the start, so that a flow that raises itself cannot hold the
  // poll.
  size_t events = event_count_.load(std::memory_order_relaxed);
  while (events-- > 0 && taken < out.size()) {
    const std::shared_ptr<LoopbackWire> wire = next_event();
    if (wire == nullptr) break;
    taken += take_event(wire, out.subspan(taken), now);
  }
  return taken;
}

uint32_t LoopbackQueue::take_event(const std::shared_ptr<LoopbackWire>& wire,
                                   std::span<Request*> out, Instant now) {
  // The mark is cleared before the look: bytes that come afterwards raise a new event.
  wire->clear_event();
  if (!wire->accepted && !accept(wire, now)) return 0;
  LoopbackFlow* flow = wire->flow.load(std::memory_order_acquire);
  if (flow == nullptr) return 0;
  flow->note_client(wire->client());
  return flow->on_event(owner_queue_.host(), out, now, false, false);
}

void LoopbackQueue::look_at_client(Request& request) {
  auto& flow = static_cast<LoopbackFlow&>(StreamFlow::of(request));
  flow.note_client(flow.wire().client());
}

bool LoopbackQueue::accept(const std::shared_ptr<LoopbackWire>& wire, Instant now) {
  wire->accepted = true;
  const Peer peer{wire->id(), "loopback:" + std::to_string(wire->id())};
  std::unique_ptr<Session> session = shared_.protocol.open(peer);
  if (session == nullptr || owner_queue_.draining()) {
    wire->close();
    return false;
  }
  auto flow = std::make_unique<LoopbackFlow>(owner_queue_.host(), wire, peer.address, now,
                                             shared_.options.on_reply);
  flow->attach(std::move(session));
  wire->flow.store(flow.get(), std::memory_order_release);
  owner_queue_.add(std::move(flow));
  return true;
}

bool LoopbackQueue::pending() const {
  return event_count_.load(std::memory_order_relaxed) > 0 || owner_queue_.may_have_yielded() ||
         (first_due_ns_.load(std::memory_order_relaxed) != Instant::never().ns() &&
          shared_.options.now().ns() >= first_due_ns_.load(std::memory_order_relaxed));
}

void LoopbackQueue::wait(Nanos limit) {
  {
    const OwnerQueue::PollLock lock(owner_queue_);
    if (!lock.held() || owner_queue_.has_yielded()) return;
    owner_queue_.reap();
    owner_queue_.sweep(shared_.options.now(), OwnerQueue::kSweepInWait,
                       shared_.options.idle_timeout);
  }
  limit = std::min(limit, OwnerQueue::kSweepRound);
  std::unique_lock lock(mutex_);
  if (!transit_.empty()) limit = std::min(limit, transit_.top().due - shared_.options.now());
  something_.wait_for(lock, std::chrono::nanoseconds(std::max<int64_t>(limit.count(), 0)),
                      [this] { return woken_ || !events_.empty(); });
  woken_ = false;
}

void LoopbackQueue::wake() {
  std::unique_lock lock(mutex_);
  woken_ = true;
  something_.notify_one();
  notify_proxy(std::move(lock));
}

bool LoopbackQueue::delegate_to(DatapathQueue* proxy) {
  std::lock_guard lock(mutex_);
  proxy_ = proxy;
  return true;
}

// Wakes the proxy poller, if there is one, after giving up the lock.
void LoopbackQueue::notify_proxy(std::unique_lock<std::mutex> lock) {
  DatapathQueue* const proxy = proxy_;
  lock.unlock();
  if (proxy != nullptr) proxy->wake();
}

void LoopbackQueue::raise(const std::shared_ptr<LoopbackWire>& wire) {
  if (!wire->mark_event()) return;
  LoopbackQueue& queue = wire->queue();  // after the mark, see LoopbackWire::move_to
  std::unique_lock lock(queue.mutex_);
  queue.events_.push_back(wire);
  queue.event_count_.store(queue.events_.size(), std::memory_order_relaxed);
  queue.something_.notify_one();
  queue.notify_proxy(std::move(lock));
}

std::shared_ptr<LoopbackWire> LoopbackQueue::next_event() {
  std::lock_guard lock(mutex_);
  if (events_.empty()) return nullptr;
  std::shared_ptr<LoopbackWire> wire = std::move(events_.front());
  events_.pop_front();
  event_count_.store(events_.size(), std::memory_order_relaxed);
  return wire;
}

void LoopbackQueue::send(const std::shared_ptr<LoopbackWire>& wire, std::string_view bytes) {
  if (faulty()) {
    dispatch({{}, 0, wire, std::string(bytes), false});
    return;
  }
  wire->deliver(bytes, shared_.options.now());
  raise(wire);
}

void LoopbackQueue::send_end(const std::shared_ptr<LoopbackWire>& wire) {
  if (faulty()) {
    dispatch({{}, 0, wire, {}, true});
    return;
  }
  wire->deliver_end();
  raise(wire);
}

// Throws the dice for a parcel and puts it on its way.
void LoopbackQueue::dispatch(Parcel parcel) {
  const LoopbackOptions& o = shared_.options;
  std::unique_lock lock(mutex_);
  if (!parcel.end && dice_.uniform() < o.loss) {
    ++faults_.lost;
    lock.unlock();
    parcel.wire->unreserve(parcel.bytes.size());
    return;
  }
  Nanos delay = o.delay_min;
  if (o.delay_max > o.delay_min) {
    const double span = static_cast<double>((o.delay_max - o.delay_min).count());
    delay += Nanos(static_cast<int64_t>(dice_.uniform() * span));
  }
  if (delay > Nanos(0)) ++faults_.delayed;
  if (dice_.uniform() < o.reorder) {
    delay += o.reorder_by;
    ++faults_.reordered;
  }
  parcel.due = o.now() + delay;
  Instant& last = parcel.wire->last_due;
  if (!o.reorder_within_flow || parcel.end) parcel.due = std::max(parcel.due, last);
  last = std::max(last, parcel.due);
  parcel.number = next_number_++;
  transit_.push(std::move(parcel));
  first_due_ns_.store(transit_.top().due.ns(), std::memory_order_relaxed);
  woken_ = true;  // the sleeper must look at the new first due time
  something_.notify_one();
  notify_proxy(std::move(lock));
}

void LoopbackQueue::deliver_due(Instant at) {
  while (at.ns() >= first_due_ns_.load(std::memory_order_relaxed)) {
    Parcel parcel;
    {
      std::lock_guard lock(mutex_);
      if (transit_.empty() || transit_.top().due > at) return;
      parcel = transit_.top();
      transit_.pop();
      const Instant first = transit_.empty() ? Instant::never() : transit_.top().due;
      first_due_ns_.store(first.ns(), std::memory_order_relaxed);
    }
    deliver(parcel, parcel.due);
  }
}

void LoopbackQueue::deliver(const Parcel& parcel, Instant at) {
  if (parcel.end) {
    parcel.wire->deliver_end();
  } else {
    parcel.wire->deliver(parcel.bytes, at);
  }
  raise(parcel.wire);
}

void LoopbackQueue::count_refused() {
  std::lock_guard lock(mutex_);
  ++faults_.refused;
}

void LoopbackQueue::add_to(LoopbackFaults& faults) const {
  std::lock_guard lock(mutex_);
  faults.lost += faults_.lost;
  faults.delayed += faults_.delayed;
  faults.reordered += faults_.reordered;
  faults.refused += faults_.refused;
}

}  // namespace rubato
