// SPDX-License-Identifier: Apache-2.0
//
// XdpQueue: one worker's end of an XdpWire: a socket on each hardware queue. The poller owns the
// receive rings, the lock guards the transmit ring that the worker uses: that of one hardware
// queue, as frames of any may leave by it.
//
// Memory order: the rings are shared with the kernel, and libxdp's accessors pair with it.
// pending() reads both ends of a receive ring; it may be late by a moment, as any look into a
// queue.
#pragma once

#include <xdp/xsk.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <vector>

#include "base/result.h"
#include "datapath/datagram.h"
#include "datapath/tcp_socket.h"
#include "mechanism/queue/spin_lock.h"
#include "xdp/frame_headers.h"
#include "xdp/frames.h"
#include "xdp/ring_arrivals.h"

namespace rubato::xdp {

// What all queues of a wire share.
struct WireParts {
  static constexpr size_t kLeastPacket = 576;

  std::unique_ptr<Frames> frames;
  // Kept where they are: sockets refer to their rings.
  std::vector<std::unique_ptr<HardwareQueue>> hardware;
  std::string interface;
  uint16_t port = 0;         // the first
  std::vector<Fd> reserved;  // a socket of the kernel for each port
  // Bytes of a packet of the interface, which may change while workers send.
  std::atomic<size_t> packet{kLeastPacket};
  Nanos busy_poll;

  // Of the ports, the one that the peer has sent to or is to hear from.
  size_t port_of(const DatagramPeer& peer) const {
    return static_cast<uint16_t>(peer.local_port - port);
  }
  void set_mtu(int mtu) {
    packet.store(std::max(static_cast<size_t>(mtu), kLeastPacket), std::memory_order_relaxed);
  }
  // Bytes of a payload that fit one.
  size_t most_for(const DatagramPeer& peer) const {
    return std::min(kMaxDatagramPayload,
                    packet.load(std::memory_order_relaxed) - ip_bytes(peer) - kUdpBytes);
  }
};

class XdpQueue final : public WireQueue {
 public:
  XdpQueue(WireParts& parts, uint32_t worker);
  ~XdpQueue() override;

  // Opens the sockets. Fails with one line.
  Status start();
  // Of the worker, on that hardware queue.
  int socket(uint32_t hardware_queue) const { return files_[hardware_queue]; }
  bool copies() const;

  uint32_t receive(std::span<Datagram> out, Instant now, bool late) override;
  bool pending() const override;
  bool has_left_over() const override { return pending(); }
  void release(const Datagram& datagram) override;
  void reply(const Datagram& datagram, size_t size) override;
  void send(const DatagramPeer& to, std::string_view bytes) override;
  void push() override;
  uint64_t unsent() const override { return unsent_.load(std::memory_order_relaxed); }
  std::span<const int> files() const override { return files_; }
  // While a hardware queue has no frame for arrivals, which the kernel drops: nothing tells when
  // frames are free again.
  Nanos nap() const override;
  Nanos busy_poll() const override { return parts_.busy_poll; }
  void look_at_card() override;

  void add_to(DatagramDrops& drops) const;
  // Arrivals that the kernel dropped before the ring of a socket, for want of a frame or other
  // reasons; those for want of a frame only in copy mode.
  uint64_t dropped() const;
  // Arrivals that found a fill ring empty. The rings are shared: any queue tells of all.
  uint64_t empty_fills() const;

 private:
  static constexpr uint32_t kRingFrames = 1024;
  static constexpr uint32_t kBatch = 64;
  static constexpr uint32_t kMostKicks = 64;
  static constexpr size_t kReplyOffset = kFrameHalfBytes + 128;  // room for headers in front

  struct Ring {
    xsk_socket* socket = nullptr;
    xsk_ring_cons received{};
    RingArrivals arrivals;
    xsk_ring_prod sent{};
  };

  Status open(uint32_t hardware_queue);
  uint32_t receive_from(uint32_t hardware_queue, std::span<Datagram> out, Instant now);
  bool take(const xdp_desc& descriptor, Datagram& to, Instant arrived);
  // By the kernel, which finds out where the peer is.
  void send_by_kernel(const DatagramPeer& to, std::string_view bytes);
  bool enqueue(uint64_t frame, const DatagramPeer& to, size_t size);
  void push_locked();
  void note_left(uint32_t left, bool link_is_down);

  WireParts& parts_;
  const uint32_t sends_by_;  // the hardware queue
  std::vector<std::unique_ptr<Ring>> rings_;
  std::vector<int> files_;
  uint32_t next_ring_ = 0;
  std::atomic<uint64_t> malformed_{0};

  alignas(limits::kCacheLineBytes) SpinLock lock_;
  std::atomic<uint32_t> in_ring_{0};  // these two are written under the lock
  std::atomic<uint32_t> unsent_{0};   // of those, but for the stuck ones
  uint32_t stuck_ = 0;  // they met a link that was down: counted as lost, and sent if it comes back
  uint32_t unsubmitted_ = 0;
  std::atomic<uint64_t> lost_{0};
};

}  // namespace rubato::xdp
