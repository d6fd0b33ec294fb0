// SPDX-License-Identifier: Apache-2.0
//
// NetWorkerDatapath: a net worker in front of the workers of a runtime (Persephone, sections 4.1
// and 4.3.1; Shinjuku, NSDI 2019, section 3.1), over any other datapath. One thread receives by
// every queue of that datapath, whose protocol classifies the requests; it queues them by type and
// hands them to the workers through channels, one each. The workers do not look into the network: a
// poll takes from the worker's channel, then from those of others, so that a request waits at no
// busy worker while another one is idle. What becomes of it then is the policy's business.
//
// Flow control is by type: of each so many requests may wait or run, here and at the workers, and
// one more is refused, whatever the others have. Types from limits::kTypes - 1 on count as one;
// requests of groups, the control plane among them, as another one. Where channels have no room,
// types take turns.
//
// Replies leave as without a net worker, by the worker that ran the request. The thread begins with
// the first poll of a worker, so that arrivals before that wait in the network. It spins while it
// finds something, and for kSpin after that; then it sleeps, if the queues can.
//
// Memory order. A channel is a SpscQueue; its consumers hold a PollLock. A worker that goes to
// sleep and the thread that hands out each write a word and then read the other's, with a full
// fence between: the worker writes that it is asleep and reads the depths, the thread puts requests
// and reads who is asleep. So the worker sees the request, or it is woken.
//
// Threads: as datapath.h says. Borrows the datapath, which nobody else polls.
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <memory>
#include <thread>
#include <vector>

#include "base/limits.h"
#include "base/result.h"
#include "datapath/datapath.h"
#include "metrics/counter.h"
#include "metrics/open_metrics.h"

namespace rubato {

class GuestQueue;
class NetBell;
class NetQueue;

class NetWorkerDatapath final : public Datapath {
 public:
  static constexpr uint32_t kTypedCapacity = 4096;  // unfinished requests of a type
  static constexpr uint32_t kChannelCapacity = 64;  // requests on their way to a worker
  static constexpr Nanos kSpin = Nanos::micros(50);

  // Fails with one line where the system has no eventfds.
  static Result<std::unique_ptr<NetWorkerDatapath>> open(
      Datapath& of, uint32_t typed_capacity = kTypedCapacity);
  // The workers have ended.
  ~NetWorkerDatapath() override;

  // Requests that were refused since their type had too many; all, and of a slot of type.
  uint64_t refused() const;
  uint64_t refused_of(uint32_t type) const;
  // Requests that went to workers.
  uint64_t handed_out() const { return handed_out_.value(); }
  void expose(OpenMetrics& out) const;

  uint32_t queues() const override { return of_.queues(); }
  DatapathQueue& queue(WorkerId worker) override;
  Nanos begin_drain() override { return of_.begin_drain(); }
  void drain() override { of_.drain(); }
  void ended(Request& request) override;
  uint64_t in_flight() const override { return of_.in_flight(); }
  DatapathStats stats() const override { return of_.stats(); }
  void for_each_flow(const std::function<void(const FlowInfo&)>& visit) override {
    of_.for_each_flow(visit);
  }
  bool close_flow(uint64_t flow) override { return of_.close_flow(flow); }
  bool steer(uint64_t flow, WorkerId to) override { return of_.steer(flow, to); }
  bool unsteer(uint64_t flow) override { return of_.unsteer(flow); }
  bool request_push(uint64_t flow) override { return of_.request_push(flow); }

 private:
  friend class NetQueue;
  static constexpr uint32_t kGroups = limits::kTypes;  // the slot of requests of groups
  static constexpr uint32_t kSlots = kGroups + 1;

  NetWorkerDatapath(Datapath& of, uint32_t typed_capacity);

  // A worker polls, or the end has come.
  void begin();

  // Of the thread.
  void run();
  bool receive();
  void queue_up(Request* request);
  uint32_t hand_out();
  NetQueue* with_room();
  void sleep();
  bool prepare_sleep();

  Datapath& of_;
  const uint32_t typed_capacity_;
  std::vector<std::unique_ptr<NetQueue>> queues_;
  struct alignas(limits::kCacheLineBytes) Unfinished {
    std::atomic<uint32_t> count{0};
  };
  static_assert(kSlots <= UINT8_MAX);
  std::array<Unfinished, kSlots> unfinished_;  // relaxed: the net worker alone adds
  std::array<Counter, kSlots> refused_;
  Counter handed_out_;
  std::unique_ptr<NetBell> bell_;     // ends the sleep of the thread where it sleeps by files
  std::vector<GuestQueue*> guests_;   // all queues, or none
  std::atomic<bool> begun_{false};
  std::atomic<bool> ended_{false};

  // The thread's.
  std::array<std::deque<Request*>, kSlots> typed_;
  uint32_t held_ = 0;      // in those
  uint32_t turn_ = 0;      // the type whose turn it is
  uint32_t next_ = 0;      // the worker that comes next
  std::vector<int> files_;                 // of the guests
  std::vector<DatapathQueue*> delegated_;  // their events end a wait of the first queue
  bool can_sleep_ = false;
  std::thread thread_;
};

}  // namespace rubato
