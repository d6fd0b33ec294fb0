// SPDX-License-Identifier: Apache-2.0
//
// Clients at the other end of a DPDK port, which build and take apart frames themselves. One
// thread.
#pragma once

#include <gtest/gtest.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_ring.h>

#include <array>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "datapath/testing/datagram_bed.h"
#include "dpdk/host_frames.h"
#include "dpdk/port.h"

namespace rubato::testing {

// Moves frames to the port and from it.
class FrameLink {
 public:
  virtual ~FrameLink() = default;
  // Takes the frame over; false = it was not taken, and is free again.
  virtual bool put(rte_mbuf* frame) = 0;
  // Null: nothing has come.
  virtual rte_mbuf* get() = 0;

  bool put_bytes(rte_mempool* pool, std::string_view bytes) {
    rte_mbuf* const frame = rte_pktmbuf_alloc(pool);
    RUBATO_CHECK(frame != nullptr);
    std::memcpy(rte_pktmbuf_append(frame, static_cast<uint16_t>(bytes.size())), bytes.data(),
                bytes.size());
    return put(frame);
  }
  std::string get_bytes() {
    rte_mbuf* const frame = get();
    if (frame == nullptr) return {};
    std::string bytes(rte_pktmbuf_mtod(frame, const char*), frame->data_len);
    rte_pktmbuf_free(frame);
    return bytes;
  }
};

// The rings of a net_ring port; its queues are served in turn.
class RingLink final : public FrameLink {
 public:
  RingLink(std::vector<rte_ring*> to, std::vector<rte_ring*> from)
      : to_(std::move(to)), from_(std::move(from)) {}
  ~RingLink() override {
    for (rte_ring* ring : to_) rte_ring_free(ring);
    for (rte_ring* ring : from_) rte_ring_free(ring);
  }
  bool put(rte_mbuf* frame) override {
    if (rte_ring_enqueue(to_[next_++ % to_.size()], frame) == 0) return true;
    rte_pktmbuf_free(frame);
    return false;
  }
  rte_mbuf* get() override {
    void* frame = nullptr;
    for (rte_ring* ring : from_) {
      if (rte_ring_dequeue(ring, &frame) == 0) break;
    }
    return static_cast<rte_mbuf*>(frame);
  }

 private:
  const std::vector<rte_ring*> to_;
  const std::vector<rte_ring*> from_;
  size_t next_ = 0;
};

// A host with clients; each has a port, and so a steering group, of its own.
class ClientHost {
 public:
  // `server`: its address, as DatagramPeer names the one that a datagram goes to.
  ClientHost(FrameLink& link, rte_mempool* pool, const DatagramPeer& server)
      : link_(link), pool_(pool), server_(server) {}

  // A datagram from that port.
  std::string frame_of(uint16_t port, std::string_view payload) const;
  void send(uint16_t port, std::string_view payload) {
    EXPECT_TRUE(link_.put_bytes(pool_, frame_of(port, payload)));
  }
  // The next reply to it; empty = none has come.
  std::string receive(uint16_t port);

 private:
  FrameLink& link_;
  rte_mempool* const pool_;
  const DatagramPeer server_;
  std::map<uint16_t, std::deque<std::string>> heard_;
};

class FrameClient final : public DatagramClient {
 public:
  FrameClient(ClientHost& host, uint16_t port) : host_(host), port_(port) {}
  void send(std::string_view bytes) override { host_.send(port_, bytes); }
  std::string receive() override { return host_.receive(port_); }

 private:
  ClientHost& host_;
  const uint16_t port_;
};

// From 10.77.0.2 or fd77::2 to port 7777 of 10.77.0.1 or fd77::1.
DatagramPeer server_at(bool ipv6, uint16_t vlan, std::array<uint8_t, 6> mac);

}  // namespace rubato::testing
