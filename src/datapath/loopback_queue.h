// SPDX-License-Identifier: Apache-2.0
//
// LoopbackQueue: one worker's in-process connections: a list of wires with events, where TCP has
// epoll, and the submits still in transit, where faults are injected.
//
// `mutex_` guards the events, the submits in transit, the dice and the sleep; the poll lock of
// `owner_queue_` guards the flows. Threads: as datapath.h says; any thread may call raise, send and
// send_end.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <queue>

#include "base/prng.h"
#include "datapath/owner_queue.h"
#include "datapath/loopback_wire.h"

namespace rubato {

class LoopbackQueue final : public DatapathQueue {
 public:
  LoopbackQueue(LoopbackDatapath::Shared& shared, uint32_t index);

  uint32_t poll(std::span<Request*> out) override;
  bool pending() const override;
  Request* finish(Request& request) override { return StreamFlow::of(request).finished(request); }
  void flush(Request& request) override { StreamFlow::of(request).flush(); }
  bool flush_some(Request& request, size_t size_bytes) override {
    return StreamFlow::of(request).flush_some(size_bytes);
  }
  void look_at_client(Request& request) override;
  void wait(Nanos limit) override;
  void wake() override;
  bool delegate_to(DatapathQueue* proxy) override;

  // The wire has an event: the next poll of its present queue looks at the wire.
  static void raise(const std::shared_ptr<LoopbackWire>& wire);
  // Sends bytes on a wire that this queue owns; they arrive now, later or never.
  void send(const std::shared_ptr<LoopbackWire>& wire, std::string_view bytes);
  // Sends the end of the stream, which arrives after all bytes before it.
  void send_end(const std::shared_ptr<LoopbackWire>& wire);
  void count_refused();

  FlowHost& host() { return owner_queue_.host(); }
  const FlowRegistry& registry() const { return owner_queue_.registry(); }
  void add_to(DatapathStats& stats) const { owner_queue_.add_to(stats); }
  void add_to(LoopbackFaults& faults) const;

 private:
  struct Parcel {
    Instant due;
    uint64_t number = 0;
    std::shared_ptr<LoopbackWire> wire;
    std::string bytes;
    bool end = false;
  };
  struct Later {
    bool operator()(const Parcel& a, const Parcel& b) const {
      return a.due != b.due ? a.due > b.due : a.number > b.number;
    }
  };

  bool faulty() const;
  void notify_proxy(std::unique_lock<std::mutex> lock);
  void dispatch(Parcel parcel);
  void deliver_due(Instant at);
  void deliver(const Parcel& parcel, Instant at);
  std::shared_ptr<LoopbackWire> next_event();
  uint32_t take_event(const std::shared_ptr<LoopbackWire>& wire, std::span<Request*> out,
                      Instant now);
  bool accept(const std::shared_ptr<LoopbackWire>& wire, Instant now);

  LoopbackDatapath::Shared& shared_;
  OwnerQueue owner_queue_;

  mutable std::mutex mutex_;
  std::condition_variable something_;
  std::deque<std::shared_ptr<LoopbackWire>> events_;
  std::priority_queue<Parcel, std::vector<Parcel>, Later> transit_;
  Prng dice_;
  uint64_t next_number_ = 0;
  bool woken_ = false;
  DatapathQueue* proxy_ = nullptr;
  LoopbackFaults faults_;

  // Mirrors of events_ and transit_ for a look without the mutex, under which they are written. A
  // poll that reads an old value finds the event in its next turn; a wait looks under the mutex.
  std::atomic<size_t> event_count_{0};
  std::atomic<int64_t> first_due_ns_{Instant::never().ns()};
};

}  // namespace rubato
