// SPDX-License-Identifier: Apache-2.0
//
// Receiver: takes frames out of the port's receive queues, answers what a host answers, and puts
// datagrams for the server into the inbox of their worker. With a table in the card each queue is
// one worker's; without, any worker takes from any queue, so that a worker in a long request keeps
// nothing from the others. Whoever looks into a queue holds it meanwhile, and others do not wait.
//
// Memory order: a queue is taken with acquire, which pairs with the release of the holder before;
// inboxes are rings of DPDK, with many writers and the poller of their worker as the reader.
#pragma once

#include <rte_ring.h>

#include <atomic>
#include <memory>
#include <vector>

#include "base/limits.h"
#include "base/result.h"
#include "dpdk/port.h"
#include "dpdk/steering.h"
#include "metrics/counter.h"

namespace rubato::dpdk {

class Receiver {
 public:
  Receiver(Port& port, const Steering& steering) : port_(port), steering_(steering) {}

  // Makes the inboxes. Fails with one line.
  Status start(uint32_t workers);

  // Takes what has come for a worker, and for others where they share queues. False: perhaps not
  // all of it, as a burst was full or somebody else was at a queue. Any thread.
  bool look(uint32_t worker, Instant now);
  // Frames in the worker's inbox. Any thread.
  bool has(uint32_t worker) const { return rte_ring_empty(inboxes_[worker].get()) == 0; }
  // Out of the inbox; one caller at a time.
  uint32_t take(uint32_t worker, std::span<rte_mbuf*> out);

  void add_to(DatagramDrops& drops) const;

 private:
  static constexpr uint32_t kBurst = 32;
  static constexpr uint32_t kInboxFrames = 1024;

  struct alignas(limits::kCacheLineBytes) Queue {
    std::atomic<bool> taken{false};
    Counter malformed;  // these are the holder's
    Counter fragments;
    Counter passed;
    Counter no_frame;
    Counter inbox_full;
  };
  struct FreeRing {
    void operator()(rte_ring* ring) const { rte_ring_free(ring); }
  };

  bool take_from(uint16_t queue, Instant now);
  void sort(uint16_t queue, rte_mbuf* frame, Instant now);
  static bool has_room(const rte_mbuf* frame);
  rte_mbuf* own(rte_mbuf* frame, Queue& queue);
  void answer(uint16_t queue, rte_mbuf* frame, size_t bytes);
  void hand_over(uint16_t queue, rte_mbuf* frame);

  Port& port_;
  const Steering& steering_;
  std::vector<Queue> queues_;
  std::vector<std::unique_ptr<rte_ring, FreeRing>> inboxes_;
};

}  // namespace rubato::dpdk
