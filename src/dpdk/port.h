// SPDX-License-Identifier: Apache-2.0
//
// Port: an Ethernet port of DPDK with the frames that it receives to. Each frame is an mbuf of one
// pool: what arrives lies in the first half of its buffer, the answer in the second, and in its
// private part is what the wire has found out about it. The driver puts a frame that it has sent
// back into the pool.
//
// The pool and the rings are for threads that may lose their CPU anywhere ("relaxed tail"), since
// workers are threads that the EAL does not know; those have no cache of frames.
#pragma once

#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/limits.h"
#include "base/result.h"
#include "datapath/datagram.h"
#include "dpdk/host_frames.h"
#include "dpdk/neighbour.h"
#include "dpdk/plugin.h"
#include "mechanism/queue/spin_lock.h"

namespace rubato::dpdk {

// Of the second half's payload, from the buffer's start; room for headers is in front.
inline constexpr size_t kReplyOffset = kFrameHalfBytes + 128;
inline constexpr uint16_t kBufferBytes = kReplyOffset + kMaxDatagramPayload;
inline constexpr uint32_t kFramesPerQueue = 8192;  // in all, for each receive queue
// At least that many are neither in a receive nor in a transmit queue.
inline constexpr uint32_t kFramesOfRequests = kFramesPerQueue / 2;

// In the frame's private part.
struct FrameNote {
  SortedFrame sorted;
  Instant arrived;
};

inline FrameNote& note_of(rte_mbuf* frame) {
  return *static_cast<FrameNote*>(rte_mbuf_to_priv(frame));
}
inline char* reply_of(rte_mbuf* frame) {
  return static_cast<char*>(frame->buf_addr) + kReplyOffset;
}

class Port {
 public:
  Port() = default;
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;
  ~Port();

  // Finds, configures and starts the port. Fails with one line.
  Status start(const DpdkWireOptions& options, const HostAddress& address);

  uint16_t id() const { return id_; }
  const std::string& name() const { return name_; }
  const HostAddress& host() const { return host_; }
  Neighbour& neighbour() { return neighbour_; }
  uint16_t receive_queues() const { return receive_queues_; }
  uint16_t transmit_queues() const { return transmit_queues_; }
  // Entries of the card's table, if it can steer by it; else 0.
  uint32_t reta_entries() const { return reta_entries_; }
  bool computes_checksums() const { return computes_checksums_; }
  size_t most_payload() const { return most_payload_; }

  // Null: none is free.
  rte_mbuf* allocate() { return rte_pktmbuf_alloc(pool_); }
  const rte_mempool* pool() const { return pool_; }
  // Takes arrivals. One caller at a time for each queue.
  uint32_t receive(uint16_t queue, std::span<rte_mbuf*> out) {
    return rte_eth_rx_burst(id_, queue, out.data(), static_cast<uint16_t>(out.size()));
  }
  struct Transmitted {
    uint32_t frames;     // that the driver has taken over, the first ones
    bool refuses_next;   // it will never take the one behind them
  };
  // Any thread.
  Transmitted transmit(uint16_t queue, std::span<rte_mbuf*> frames);

 private:
  struct alignas(limits::kCacheLineBytes) TransmitQueue {
    SpinLock lock;
  };

  Status find(const std::string& port);
  Status configure(uint32_t workers);
  bool can_steer(const rte_eth_dev_info& info, uint32_t workers) const;
  Status set_up_queues(const rte_eth_dev_info& info);

  uint16_t id_ = RTE_MAX_ETHPORTS;
  std::string name_;
  HostAddress host_;
  Neighbour neighbour_;
  rte_mempool* pool_ = nullptr;
  std::vector<uint8_t> key_;
  std::vector<TransmitQueue> transmit_locks_;
  uint16_t receive_queues_ = 0;
  uint16_t transmit_queues_ = 0;
  uint32_t reta_entries_ = 0;
  size_t most_payload_ = 0;
  bool computes_checksums_ = false;
  bool started_ = false;
};

}  // namespace rubato::dpdk
