// SPDX-License-Identifier: Apache-2.0
//
// FlowOrder: the order of requests inside a flow of datagrams, for DatagramDatapath where its rules
// keep one. Requests of a flow are in service one after the other, as they came, whichever workers
// run them and whichever queues they come in by.
//
// The requests of a flow that are in hand form a list; only its first is in service, and so many
// may wait behind it. Of moves between queues (SBB 4.5.1): what comes in by the old queue goes
// before what comes in by the new one. So a datagram of a group that has just moved waits until the
// old queue has been emptied after its arrival. The network keeps the order of a flow, so its
// datagrams for the old queue lie there by then. A move is over when nothing waits and the old
// queue was emptied kSettles after the table was rewritten, which covers a lookup that was under
// way then; meanwhile the group is not moved again.
//
// A group has a lock, under which every step of its flows and moves is taken, but for the rewriting
// of the table, which may take a driver long. Nothing is allocated: the lists are in the requests.
// Any thread, but not one that may be preempted (mechanism/queue/spin_lock.h).
#pragma once

#include <array>
#include <atomic>
#include <optional>
#include <vector>

#include "base/ids.h"
#include "base/limits.h"
#include "base/time.h"
#include "datapath/datagram.h"
#include "mechanism/queue/spin_lock.h"

namespace rubato {

struct DatagramRequest;

class FlowOrder {
 public:
  static constexpr Nanos kSettles = Nanos::millis(1);
  static constexpr uint32_t kMostWaiting = 256;  // requests of a flow, behind the one in service

  explicit FlowOrder(uint32_t queues) : emptied_ns_(queues) {}

  // The queue of `at` has received a datagram of the group. The queue that must be emptied before
  // the datagram enters; none = it enters at once. Its poller calls settled() when it has waited.
  std::optional<WorkerId> old_queue(uint32_t group, WorkerId at);
  void settled(uint32_t group);
  // Nothing was left in the queue of `at` after `since`; all that was there has entered or waits.
  void emptied(WorkerId at, Instant since) {
    emptied_ns_[at.value].store(since.ns(), std::memory_order_release);
  }

  // The request is the last of its flow now, unless the flow has too many. Uses the request's
  // links, its flow and its peer.
  enum class Entered : uint8_t { kFirst, kBehind, kRefused };  // the first may run
  Entered enter(DatagramRequest& request);
  // The request is done, and the first of its flow. Returns the one behind it, which may run now.
  DatagramRequest* leave(DatagramRequest& request);

  // DatagramWire::steer_group; false also while an earlier move of the group is not settled.
  bool move(DatagramWire& wire, uint32_t group, WorkerId to);

 private:
  static constexpr size_t kBuckets = 64;  // of a group

  struct alignas(limits::kCacheLineBytes) Group {
    SpinLock lock;
    // When the table had been rewritten; never = no move that matters; kMoving = that is underway.
    // Written under the lock; read without it as a hint that nothing has moved: kMoving is released
    // before the table is rewritten, so whoever has received a datagram by the new entry sees that
    // there is a move.
    std::atomic<int64_t> moved_ns{kNever};
    WorkerId from;
    uint32_t waiting = 0;  // datagrams that old_queue() has let wait
    // The first requests of flows, by their numbers.
    std::array<DatagramRequest*, kBuckets> first{};
  };
  static constexpr int64_t kNever = INT64_MIN;
  static constexpr int64_t kMoving = INT64_MAX;

  bool settles(const Group& group) const;
  static DatagramRequest** place_of(Group& group, uint64_t flow);

  std::array<Group, kSteeringGroups> groups_;
  // Released by its poller after what it has received has entered, acquired by who asks for moves.
  std::vector<std::atomic<int64_t>> emptied_ns_;
};

}  // namespace rubato
