// SPDX-License-Identifier: Apache-2.0
//
// DpdkQueue: one worker's end of a DPDK wire. Replies gather in it until they are pushed into the
// transmit queue of the port, which workers share where the port has fewer.
#pragma once

#include <array>
#include <atomic>

#include "base/limits.h"
#include "datapath/datagram.h"
#include "dpdk/port.h"
#include "dpdk/receiver.h"
#include "mechanism/queue/spin_lock.h"

namespace rubato::dpdk {

class DpdkQueue final : public WireQueue {
 public:
  DpdkQueue(Port& port, Receiver& receiver, const DpdkWireOptions& options, uint32_t worker);
  ~DpdkQueue() override;

  uint32_t receive(std::span<Datagram> out, Instant now, bool late) override;
  bool pending() const override;
  bool has_left_over() const override { return left_over_.load(std::memory_order_relaxed); }
  void release(const Datagram& datagram) override;
  void reply(const Datagram& datagram, size_t size) override;
  void send(const DatagramPeer& to, std::string_view bytes) override;
  void push() override;
  uint64_t unsent() const override { return unsent_.load(std::memory_order_relaxed); }
  std::span<const int> files() const override { return {}; }
  Nanos nap() const override { return nap_; }

  // Any thread.
  uint64_t lost() const { return lost_.load(std::memory_order_relaxed); }

 private:
  static constexpr uint32_t kBatch = 32;
  static constexpr uint32_t kMostTries = 64;
  // Pushes in a row of which the driver takes nothing, as when the link is down.
  static constexpr uint32_t kMostFailedPushes = 64;

  uint32_t take(std::span<Datagram> out);
  // Once the peer's Ethernet address is known; until then it is asked for.
  void send_to_neighbour(DatagramPeer to, std::string_view bytes);
  void ask_for(const DatagramPeer& to);
  void enqueue(rte_mbuf* frame, const DatagramPeer& to, size_t size);
  void put(rte_mbuf* frame);
  void push_locked();
  // The frames from `first` to before `end` are lost.
  void lose(uint32_t first, uint32_t end);

  Port& port_;
  Receiver& receiver_;
  const uint32_t worker_;
  const uint16_t sends_by_;
  const Nanos nap_;
  Instant (*const clock_)();
  std::atomic<bool> left_over_{false};  // receive() has perhaps not come to the end

  alignas(limits::kCacheLineBytes) SpinLock lock_;
  std::atomic<uint32_t> unsent_{0};  // written under the lock
  std::array<rte_mbuf*, kBatch> frames_{};
  uint32_t failed_pushes_ = 0;
  std::atomic<uint64_t> lost_{0};
};

}  // namespace rubato::dpdk
