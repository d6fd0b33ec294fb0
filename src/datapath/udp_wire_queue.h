// SPDX-License-Identifier: Apache-2.0
//
// UdpWireQueue: one socket of a UdpWire, with its frames and the replies that it has not sent. The
// poller owns what receive() uses; the lock guards the unsent replies; frames come back by a list
// that any thread pushes to (datapath/push_list.h).
#pragma once

#include <sys/socket.h>

#include <array>
#include <atomic>
#include <memory>
#include <vector>

#include "datapath/datagram.h"
#include "datapath/push_list.h"
#include "datapath/tcp_socket.h"
#include "datapath/udp_wire.h"
#include "mechanism/queue/spin_lock.h"

namespace rubato {

class UdpWireQueue final : public WireQueue {
 public:
  // The requests of one queue hold so many frames at most; what comes then waits in the kernel.
  static constexpr uint32_t kMostFrames = 16384;

  // `socket` is bound.
  UdpWireQueue(Fd socket, const UdpWireOptions& options);
  ~UdpWireQueue() override;

  uint32_t receive(std::span<Datagram> out, Instant now, bool late) override;
  bool pending() const override;
  bool has_left_over() const override { return left_over_.load(std::memory_order_relaxed); }
  void release(const Datagram& datagram) override;
  void reply(const Datagram& datagram, size_t size) override;
  void send(const DatagramPeer& to, std::string_view bytes) override;
  void push() override;
  uint64_t unsent() const override { return unsent_.load(std::memory_order_relaxed); }
  std::span<const int> files() const override { return {&file_, 1}; }

  bool receives_trains() const { return gro_; }
  bool sends_trains() const { return gso_; }
  void add_to(DatagramDrops& drops) const;

 private:
  static constexpr size_t kTrainBytes = 65536;  // GRO puts so much together at most
  static constexpr uint32_t kMostSegments = 64;  // and GSO takes so many

  struct Frame {
    std::array<char, kFrameHalfBytes> bytes;
    std::array<char, kMaxDatagramPayload> room;
    UdpWireQueue* home = nullptr;
    Frame* next_in_list = nullptr;
  };
  struct Inbox;   // of the messages of one system call
  struct Slot;    // of one reply
  struct Outbox;  // of the replies that are not sent

  Frame* take_frame();
  bool refill(size_t room);
  void take_next(Datagram& to, Frame& frame, Instant now, bool late);
  // Locked: the slot of the reply that comes next, and when it is filled.
  Slot& next_slot();
  void fill_slot();
  void push_locked();
  uint32_t pack();
  void send_messages(uint32_t count);
  void send_singly(uint32_t first, uint32_t count);

  const Fd socket_;
  const int file_;
  const uint32_t batch_;
  bool gro_ = false;
  bool gso_ = false;
  std::unique_ptr<Inbox> inbox_;
  std::vector<std::unique_ptr<Frame[]>> chunks_;
  Frame* free_ = nullptr;  // the poller's
  std::atomic<bool> left_over_{false};  // the inbox has datagrams that receive() has not passed on
  std::atomic<uint64_t> malformed_{0};  // from port 0
  PushList<Frame> returned_;

  alignas(limits::kCacheLineBytes) SpinLock lock_;
  std::unique_ptr<Outbox> outbox_;
  std::atomic<uint32_t> unsent_{0};  // written under the lock
  std::atomic<uint64_t> lost_{0};
};

}  // namespace rubato
