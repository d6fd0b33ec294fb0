// SPDX-License-Identifier: Apache-2.0
//
// The contract of every datagram datapath: a wire with one queue per worker, whatever moves the
// bytes (kernel sockets, AF_XDP, memory in tests). Protocols are above it: DatagramDatapath for
// those with a request per datagram, rpc::UdpDatapath for sessions. Decision 23 has the reasons.
//
// Frames. A received datagram lies in a frame that the wire lends: the bytes in its first half, and
// room for the reply in its second. The frame has one owner at any time: the wire, then whoever
// holds the Datagram, until reply() or release() gives it back; a reply's frame is free again when
// the wire has sent it. So a request is read where it arrived and answered in place.
//
// Who transmits. A reply leaves by the queue of the worker that ran the request, not by the one it
// came in by, whose worker may be busy for long. DatagramWire::here() finds the queue by
// this_worker(), which is a hint; each queue has a lock for transmission, so nothing depends on it.
// The locks spin: who calls release, reply, send or push is no request that may be preempted there,
// but the runtime, or in a non-preemptible region (mechanism/preempt/preempt_disable.h).
//
// End of a burst. What reply() and send() take may stay in the queue until push() of that queue, or
// until the queue's batch is full. DatapathQueue::push says when its worker calls it.
// A thread that is no worker pushes at once.
//
// Steering. A datagram comes in by the queue of its group, and a group is bits of the peer's port.
// Wires that can have a table that steer_group rewrites while they run.
//
// Order. A wire keeps none: datagrams are lost, doubled and reordered on their way anyway. What a
// flow promises is up to the protocol (Session::concurrency, DatagramRules::keeps_order).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/ids.h"
#include "base/time.h"
#include "mechanism/cpu/this_worker.h"

namespace rubato {

// Of UDP in one Ethernet packet: a reply is no longer.
inline constexpr size_t kMaxDatagramPayload = 1472;
// Bytes of a datagram that a queue passes on; a longer one is cut off and marked.
inline constexpr size_t kFrameHalfBytes = 2048;
// Buckets of the steering tables; a power of two.
inline constexpr uint32_t kSteeringGroups = 128;

// Where a datagram came from, and all that is needed to answer there.
struct DatagramPeer {
  std::array<uint8_t, 16> address{};  // an IPv4 address is in the first four bytes
  std::array<uint8_t, 16> local{};    // that it was sent to; all zero = the wire knows
  uint32_t scope = 0;                 // interface of a link-local IPv6 address
  uint16_t port = 0;
  uint16_t local_port = 0;            // that it was sent to; 0 = the wire's, which has no other
  uint16_t vlan = 0;                  // the tag's control word; 0 = no tag
  bool ipv6 = false;
  std::array<uint8_t, 6> mac{};       // Ethernet addresses, where the wire is below IP
  std::array<uint8_t, 6> local_mac{};

  bool operator==(const DatagramPeer&) const = default;
};

// "127.0.0.1:80" or "[::1]:80".
std::string to_text(const DatagramPeer& peer);

inline uint32_t group_of(const DatagramPeer& peer) { return peer.port & (kSteeringGroups - 1); }

// A received datagram, lent by a queue.
struct Datagram {
  std::string_view bytes;
  bool cut_off = false;  // it was longer than kFrameHalfBytes
  Instant arrived;
  DatagramPeer peer;
  std::span<char> room;  // for the reply, at most kMaxDatagramPayload bytes; in the same frame
  void* frame = nullptr;  // the wire's
};

// What came to nothing, in datagrams since the start.
struct DatagramDrops {
  uint64_t no_frame = 0;   // arrivals for which no frame was free, where they cannot wait for one
  uint64_t ring_full = 0;  // arrivals that a ring or a socket buffer had no room for, if known
  uint64_t malformed = 0;  // with a wrong length or header checksum, or from port 0
  uint64_t fragments = 0;  // parts of datagrams, where no kernel puts them together
  uint64_t passed = 0;     // not for the server, so left to the kernel if there is one; if known
  uint64_t unsent = 0;     // replies that the wire did not take

  DatagramDrops& operator+=(const DatagramDrops& other) {
    no_frame += other.no_frame;
    ring_full += other.ring_full;
    malformed += other.malformed;
    fragments += other.fragments;
    passed += other.passed;
    unsent += other.unsent;
    return *this;
  }
};

// One worker's end of a wire.
class WireQueue {
 public:
  virtual ~WireQueue() = default;

  // Takes datagrams that have arrived, at most out.size(); `late`: the queue was not looked at for
  // long, so the kernel is asked when they came, if it knows. One caller at a time.
  virtual uint32_t receive(std::span<Datagram> out, Instant now, bool late) = 0;
  // True if receive would probably find something. Any thread.
  virtual bool pending() const = 0;
  // True: datagrams are here already that receive has not passed on, so files() may not report
  // them and their worker must not sleep. For the caller of receive.
  virtual bool has_left_over() const { return false; }

  // The frame is free again. Any thread.
  virtual void release(const Datagram& datagram) = 0;
  // Sends the first `size` bytes of the room, at least one, to the peer; the frame,
  // which any queue of the wire may have lent, belongs to the wire again. What cannot be sent is
  // counted and lost, as on any wire. Any thread.
  virtual void reply(const Datagram& datagram, size_t size) = 0;
  // The same for a copy of `bytes`, which answer no datagram in particular. A peer whose Ethernet
  // address is not known yet, all zero, is looked for, by the kernel if the wire is beside one.
  virtual void send(const DatagramPeer& to, std::string_view bytes) = 0;
  // Sends what is left of the two. A load if nothing is. Any thread.
  virtual void push() = 0;
  // Datagrams that reply and send took and push has not sent. Any thread.
  virtual uint64_t unsent() const = 0;

  // Descriptors that poll(2) reports readable when datagrams arrive; none = the queue cannot sleep,
  // and its worker must not.
  virtual std::span<const int> files() const = 0;
  bool can_sleep() const { return !files().empty(); }
  // How long an idle worker may doze before it looks again. Of a queue that cannot sleep, zero
  // means that it must look all the time, and its CPU is busy; of one that can, that descriptors
  // report all arrivals. For the caller of receive.
  virtual Nanos nap() const { return {}; }
  // For how long its worker, before it sleeps, has the driver look at the card (look_at_card).
  virtual Nanos busy_poll() const { return {}; }
  // Has the driver take in what the card has, without its interrupt. For the caller of receive.
  virtual void look_at_card() {}
};

class DatagramWire {
 public:
  virtual ~DatagramWire() = default;

  virtual uint32_t queues() const = 0;
  virtual WireQueue& queue(WorkerId worker) = 0;
  virtual uint16_t port() const = 0;
  virtual DatagramDrops drops() const = 0;
  // What the wire is and what the system let it have, for the start line.
  virtual std::string describe() const = 0;

  // Goes by what its interface is like now, and the log tells what that ends. About once a second;
  // one caller at a time.
  virtual void look_at_link() {}

  // From now on the group's datagrams come in by that queue; those that wait in the old one stay
  // there. False: the group is there already, or the wire has no table. Any thread. The table is
  // written with release, and who receives a datagram has read it before: so that thread sees what
  // the mover wrote before (flow_order.h).
  virtual bool steer_group(uint32_t group, WorkerId to) {
    static_cast<void>(group);
    static_cast<void>(to);
    return false;
  }
  // The group's queue; of a wire without a table, worker 0.
  virtual WorkerId queue_of_group(uint32_t group) const {
    static_cast<void>(group);
    return WorkerId{0};
  }

  // The queue by which the calling thread transmits.
  WireQueue& here() { return queue(WorkerId{this_worker() % queues()}); }
  void reply(const Datagram& datagram, size_t size) {
    WireQueue& by = here();
    by.reply(datagram, size);
    if (!on_worker()) by.push();
  }
  void send(const DatagramPeer& to, std::string_view bytes) {
    WireQueue& by = here();
    by.send(to, bytes);
    if (!on_worker()) by.push();
  }
  // Datagrams that no queue has sent yet. Any thread.
  uint64_t unsent() {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < queues(); ++i) sum += queue(WorkerId{i}).unsent();
    return sum;
  }
};

}  // namespace rubato
