// SPDX-License-Identifier: Apache-2.0
#include "xdp/queue.h"

#include <linux/if_xdp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "datapath/datagram_address.h"
#include "datapath/tcp_socket.h"
#include "datapath/time_source.h"
#include "xdp/frame_headers.h"

namespace rubato::xdp {
namespace {

constexpr Nanos kMostForQueue = Nanos::seconds(1);
constexpr std::chrono::milliseconds kLookForQueue{5};
constexpr int kLookFrames = 64;  // that a look takes in at most, as an interrupt does
constexpr Nanos kLookForFrames = Nanos::millis(1);

// Zeros where the kernel does not tell.
xdp_statistics statistics_of(int socket) {
  xdp_statistics counts{};
  socklen_t length = sizeof counts;
  const int failed = ::getsockopt(socket, SOL_XDP, XDP_STATISTICS, &counts, &length);
  return failed == 0 ? counts : xdp_statistics{};
}

// The kernel leaves the card to who looks, as long as somebody does.
Status prefer_busy_poll(int socket, Nanos length) {
  if (Status set = set_busy_poll(socket, length); !set.ok()) return set;
  const int yes = 1;
  if (::setsockopt(socket, SOL_SOCKET, SO_PREFER_BUSY_POLL, &yes, sizeof yes) == 0 &&
      ::setsockopt(socket, SOL_SOCKET, SO_BUSY_POLL_BUDGET, &kLookFrames, sizeof yes) == 0) {
    return Done{};
  }
  return Error{std::string("busy_poll: AF_XDP takes Linux 5.11: ") + std::strerror(errno)};
}

// Frames that the kernel has not sent.
uint32_t left_in(const xsk_ring_prod& ring) {
  return ring.cached_prod - __atomic_load_n(ring.consumer, __ATOMIC_ACQUIRE);
}

}  // namespace

XdpQueue::XdpQueue(WireParts& parts, uint32_t worker)
    : parts_(parts),
      sends_by_(worker % static_cast<uint32_t>(parts.hardware.size())) {}

XdpQueue::~XdpQueue() {
  for (const auto& ring : rings_) xsk_socket__delete(ring->socket);
}

Status XdpQueue::start() {
  for (uint32_t i = 0; i < parts_.hardware.size(); ++i) {
    if (Status opened = open(i); !opened.ok()) return opened;
  }
  return Done{};
}

// The kernel gives back a queue some time after the socket of a process that has ended.
Status XdpQueue::open(uint32_t hardware_queue) {
  auto ring = std::make_unique<Ring>();
  HardwareQueue& shared = *parts_.hardware[hardware_queue];
  xsk_socket_config config{};
  config.rx_size = kRingFrames;
  config.tx_size = kRingFrames;
  config.libxdp_flags = XSK_LIBXDP_FLAGS__INHIBIT_PROG_LOAD;
  config.bind_flags = XDP_USE_NEED_WAKEUP;
  const auto bind = [&] {
    return xsk_socket__create_shared(&ring->socket, parts_.interface.c_str(), hardware_queue,
                                     shared.umem(), &ring->received, &ring->sent, &shared.fill(),
                                     &shared.completed(), &config);
  };
  const Instant deadline = datapath_now() + kMostForQueue;
  int failed = bind();
  while (failed == -EBUSY && datapath_now() < deadline) {
    std::this_thread::sleep_for(kLookForQueue);
    failed = bind();
  }
  if (failed != 0) {
    return Error{"af_xdp: a socket on queue " + std::to_string(hardware_queue) + " of " +
                 parts_.interface + ": " + std::strerror(-failed) +
                 (failed == -EBUSY ? " (another process has it)" : "")};
  }
  files_.push_back(xsk_socket__fd(ring->socket));
  rings_.push_back(std::move(ring));
  return parts_.busy_poll > Nanos() ? prefer_busy_poll(files_.back(), parts_.busy_poll) : Done{};
}

// A receive of nothing, which never waits.
void XdpQueue::look_at_card() {
  for (const int file : files_) {
    static_cast<void>(::recvfrom(file, nullptr, 0, MSG_DONTWAIT, nullptr, nullptr));
  }
}

bool XdpQueue::copies() const {
  xdp_options options{};
  socklen_t length = sizeof options;
  const int failed = ::getsockopt(files_[0], SOL_XDP, XDP_OPTIONS, &options, &length);
  return failed != 0 || (options.flags & XDP_OPTIONS_ZEROCOPY) == 0;
}

// Another hardware queue is the first each time, so that none starves another.
uint32_t XdpQueue::receive(std::span<Datagram> out, Instant now, bool) {
  const auto count = static_cast<uint32_t>(rings_.size());
  uint32_t taken = 0;
  for (uint32_t i = 0; i < count && taken < out.size(); ++i) {
    taken += receive_from((next_ring_ + i) % count, out.subspan(taken), now);
  }
  next_ring_ = (next_ring_ + 1) % count;
  return taken;
}

// Fewer than asked for means that the ring is empty. So it is looked at again: a peek stops at what
// the ring had at an earlier one, and frames that hold nothing of ours take up no room.
uint32_t XdpQueue::receive_from(uint32_t hardware_queue, std::span<Datagram> out, Instant now) {
  xsk_ring_cons& ring = rings_[hardware_queue]->received;
  RingArrivals& arrivals = rings_[hardware_queue]->arrivals;
  arrivals.look(__atomic_load_n(ring.producer, __ATOMIC_ACQUIRE), now);
  HardwareQueue& shared = *parts_.hardware[hardware_queue];
  uint32_t looked_at = 0;
  uint32_t taken = 0;
  while (taken < out.size() && looked_at < kRingFrames) {
    uint32_t at = 0;
    const uint32_t n = xsk_ring_cons__peek(&ring, static_cast<uint32_t>(out.size() - taken), &at);
    if (n == 0) break;
    for (uint32_t i = 0; i < n; ++i) {
      const uint64_t start = xsk_ring_cons__rx_desc(&ring, at + i)->addr;
      fetch_frame(parts_.frames->at(start), parts_.frames->at(frame_at(start) + kReplyOffset));
    }
    for (uint32_t i = 0; i < n; ++i) {
      const Instant arrived = arrivals.seen_first(at + i, now);
      if (take(*xsk_ring_cons__rx_desc(&ring, at + i), out[taken], arrived)) ++taken;
    }
    xsk_ring_cons__release(&ring, n);
    looked_at += n;
  }
  if (looked_at > 0 || shared.filled() == 0) shared.refill(files_[hardware_queue], false);
  return taken;
}

// False: the frame holds no datagram of ours.
bool XdpQueue::take(const xdp_desc& descriptor, Datagram& to, Instant arrived) {
  const uint64_t frame = frame_at(descriptor.addr);
  const char* const start = parts_.frames->at(descriptor.addr);
  const size_t room = frame + kFrameHalfBytes - descriptor.addr;
  ParsedFrame parsed;
  if (descriptor.addr - frame >= kFrameHalfBytes || descriptor.len > room ||
      !parse_frame({start, descriptor.len}, parsed) ||
      parts_.port_of(parsed.peer) >= parts_.reserved.size()) {
    malformed_.fetch_add(1, std::memory_order_relaxed);
    parts_.frames->give({&frame, 1});
    return false;
  }
  to.bytes = parsed.payload;
  to.cut_off = false;
  to.arrived = arrived;
  to.peer = parsed.peer;
  to.room = {parts_.frames->at(frame + kReplyOffset), parts_.most_for(parsed.peer)};
  to.frame = parts_.frames->at(frame);
  return true;
}

bool XdpQueue::pending() const {
  for (const auto& ring : rings_) {
    const xsk_ring_cons& received = ring->received;
    if (__atomic_load_n(received.producer, __ATOMIC_ACQUIRE) !=
        __atomic_load_n(received.consumer, __ATOMIC_RELAXED)) {
      return true;
    }
  }
  return false;
}

Nanos XdpQueue::nap() const {
  const auto& all = parts_.hardware;
  const bool starves = std::any_of(all.begin(), all.end(),
                                   [](const auto& each) { return each->filled() == 0; });
  return starves ? kLookForFrames : Nanos();
}

void XdpQueue::release(const Datagram& datagram) {
  const uint64_t frame = parts_.frames->frame_of(datagram.frame);
  parts_.frames->give({&frame, 1});
}

void XdpQueue::reply(const Datagram& datagram, size_t size) {
  const uint64_t frame = parts_.frames->frame_of(datagram.frame);
  if (!enqueue(frame, datagram.peer, size)) parts_.frames->give({&frame, 1});
}

void XdpQueue::send(const DatagramPeer& to, std::string_view bytes) {
  if (to.mac == decltype(to.mac){}) return send_by_kernel(to, bytes);
  uint64_t frame = 0;
  if (bytes.size() > parts_.most_for(to) || parts_.frames->take({&frame, 1}) == 0) {
    lost_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  std::memcpy(parts_.frames->at(frame + kReplyOffset), bytes.data(), bytes.size());
  if (!enqueue(frame, to, bytes.size())) parts_.frames->give({&frame, 1});
}

void XdpQueue::send_by_kernel(const DatagramPeer& to, std::string_view bytes) {
  sockaddr_storage address{};
  const socklen_t length = address_of(to, address);
  const auto* const raw = reinterpret_cast<const sockaddr*>(&address);
  const int by = parts_.reserved[parts_.port_of(to)].get();
  if (::sendto(by, bytes.data(), bytes.size(), MSG_DONTWAIT, raw, length) >= 0) return;
  lost_.fetch_add(1, std::memory_order_relaxed);
}

// False, and counted: the ring is full although it was pushed.
bool XdpQueue::enqueue(uint64_t frame, const DatagramPeer& to, size_t size) {
  char* const payload = parts_.frames->at(frame + kReplyOffset);
  const char* const first = write_headers(payload, size, to);
  const std::lock_guard guard(lock_);
  xsk_ring_prod& ring = rings_[sends_by_]->sent;
  uint32_t at = 0;
  if (xsk_ring_prod__reserve(&ring, 1, &at) != 1) {
    push_locked();
    if (xsk_ring_prod__reserve(&ring, 1, &at) != 1) {
      lost_.fetch_add(1, std::memory_order_relaxed);
      return false;
    }
  }
  xdp_desc& descriptor = *xsk_ring_prod__tx_desc(&ring, at);
  descriptor.addr = static_cast<uint64_t>(first - parts_.frames->memory());
  descriptor.len = static_cast<uint32_t>(payload + size - first);
  descriptor.options = 0;
  in_ring_.store(in_ring_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  unsent_.store(unsent_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  if (++unsubmitted_ >= kBatch) push_locked();
  return true;
}

void XdpQueue::push() {
  if (in_ring_.load(std::memory_order_relaxed) == 0) return;
  const std::lock_guard guard(lock_);
  push_locked();
}

// The kernel sends so many frames per call, and none while the completion ring is full. What it
// leaves stays in the ring for the next push; while the link is down that is everything.
void XdpQueue::push_locked() {
  bool link_is_down = false;
  xsk_ring_prod& ring = rings_[sends_by_]->sent;
  if (unsubmitted_ > 0) xsk_ring_prod__submit(&ring, std::exchange(unsubmitted_, 0));
  for (uint32_t kick = 0; kick < kMostKicks; ++kick) {
    if (left_in(ring) == 0 || xsk_ring_prod__needs_wakeup(&ring) == 0) break;
    const ssize_t n = ::sendto(files_[sends_by_], nullptr, 0, MSG_DONTWAIT, nullptr, 0);
    link_is_down = n < 0 && (errno == ENETDOWN || errno == ENXIO);
    if (n < 0 && errno != EAGAIN && errno != EBUSY && errno != ENOBUFS && errno != EINTR) break;
    parts_.hardware[sends_by_]->refill(files_[sends_by_], false);
  }
  note_left(left_in(ring), link_is_down);
}

// Nobody waits for what is stuck, so that a server stops while its link is down. The ring keeps its
// order, so the stuck ones leave first.
void XdpQueue::note_left(uint32_t left, bool link_is_down) {
  if (link_is_down && left > stuck_) {
    lost_.fetch_add(left - stuck_, std::memory_order_relaxed);
  }
  stuck_ = link_is_down ? left : std::min(stuck_, left);
  in_ring_.store(left, std::memory_order_relaxed);
  unsent_.store(left - stuck_, std::memory_order_relaxed);
}

void XdpQueue::add_to(DatagramDrops& drops) const {
  drops.malformed += malformed_.load(std::memory_order_relaxed);
  drops.unsent += lost_.load(std::memory_order_relaxed);
  for (const int file : files_) {
    const xdp_statistics counts = statistics_of(file);
    drops.ring_full += counts.rx_ring_full;
    drops.unsent += counts.tx_invalid_descs;
  }
}

uint64_t XdpQueue::dropped() const {
  uint64_t sum = 0;
  for (const int file : files_) sum += statistics_of(file).rx_dropped;
  return sum;
}

uint64_t XdpQueue::empty_fills() const {
  uint64_t sum = 0;
  for (const int file : files_) sum += statistics_of(file).rx_fill_ring_empty_descs;
  return sum;
}

}  // namespace rubato::xdp
