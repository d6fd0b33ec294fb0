// SPDX-License-Identifier: Apache-2.0
//
// RequestRing: what one worker says of the requests that it ends, for a recorder
// (process/request_recorder.h): when each arrived and how long it took. The worker notes, the
// recorder's thread takes; the records wait in an SpscQueue, whose memory order is all there is. A
// request that finds it full is counted and left out, so that a slow disk delays nobody.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "base/time.h"
#include "datapath/request.h"
#include "mechanism/queue/spsc_queue.h"
#include "metrics/counter.h"

namespace rubato {

struct RequestRecord {
  Instant arrived;
  Nanos service;  // on workers; zero = it was refused
  Nanos latency;  // from arrival to reply
  uint64_t flow = 0;
  uint32_t type = 0;
  bool refused = false;
};

class RequestRing {
 public:
  static constexpr uint32_t kCapacity = 1u << 14;  // 768 KiB

  // Any thread. Relaxed: a request that ends just then may be in or not.
  void want(bool wanted) { wanted_.store(wanted, std::memory_order_relaxed); }

  // The worker. Requests of the control plane are left out.
  void note(const Request& request, Nanos latency, bool refused) {
    if (!wanted_.load(std::memory_order_relaxed) || request.is_control()) [[likely]] return;
    put({request.arrived, refused ? Nanos() : request.attained, latency, request.flow,
         request.type, refused});
  }
  void put(const RequestRecord& record) {
    if (!records_.put(record)) ++dropped_;
  }

  // The recorder.
  uint32_t take(std::span<RequestRecord> records) { return records_.take_batch(records); }

  // Any thread. Since the start.
  uint64_t dropped() const { return dropped_.value(); }

 private:
  SpscQueue<RequestRecord> records_{kCapacity};
  std::atomic<bool> wanted_{false};
  Counter dropped_;
};

}  // namespace rubato
