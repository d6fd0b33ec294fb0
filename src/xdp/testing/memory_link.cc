// SPDX-License-Identifier: Apache-2.0
#include "xdp/testing/memory_link.h"

#include <linux/if_xdp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>
#include <xdp/xsk.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "base/check.h"
#include "xdp/frame_headers.h"
#include "xdp/frames.h"

namespace rubato::testing {
namespace {

// The kernel's end of a ring. Ordering: each end publishes its own number with release, after the
// entries, and reads the other's with acquire; libxdp does the same at the program's end.
template <class Entry>
class KernelRing {
 public:
  explicit KernelRing(uint32_t size, bool needs_call = false)
      : entries_(size), flags_(needs_call ? XDP_RING_NEED_WAKEUP : 0) {}

  void lend(xsk_ring_prod& to) {
    describe(to);
    to.cached_cons = size();
  }
  void lend(xsk_ring_cons& to) { describe(to); }

  uint32_t size() const { return static_cast<uint32_t>(entries_.size()); }
  uint32_t filled() const {
    return __atomic_load_n(&producer_, __ATOMIC_ACQUIRE) -
           __atomic_load_n(&consumer_, __ATOMIC_ACQUIRE);
  }
  // Null: empty. The entry is the kernel's until pop().
  const Entry* front() const {
    return filled() == 0 ? nullptr : &entries_[consumer_ & (size() - 1)];
  }
  void pop() { __atomic_store_n(&consumer_, consumer_ + 1, __ATOMIC_RELEASE); }
  // False: full.
  bool push(const Entry& entry) {
    if (filled() == size()) return false;
    entries_[producer_ & (size() - 1)] = entry;
    __atomic_store_n(&producer_, producer_ + 1, __ATOMIC_RELEASE);
    return true;
  }

 private:
  void describe(auto& to) {
    to = {};
    to.mask = size() - 1;
    to.size = size();
    to.producer = &producer_;
    to.consumer = &consumer_;
    to.ring = entries_.data();
    to.flags = &flags_;
  }

  std::vector<Entry> entries_;
  uint32_t producer_ = 0;
  uint32_t consumer_ = 0;
  uint32_t flags_;
};

constexpr uint32_t kHeadroom = 256;  // XDP_PACKET_HEADROOM
constexpr int kMostPerCall = 32;
constexpr std::array<uint8_t, 6> kServerMac{2, 0, 0, 0, 0, 1};
constexpr std::array<uint8_t, 6> kClientMac{2, 0, 0, 0, 0, 2};

MemoryLink* the_link = nullptr;

}  // namespace
}  // namespace rubato::testing

using rubato::testing::KernelRing;
using rubato::testing::MemoryLink;

struct xsk_umem {
  char* memory;
  KernelRing<uint64_t> fill;
  KernelRing<uint64_t> completed;
  std::mutex mutex;  // guards the kernel's ends of the two, those of receive rings, and the rest
  uint32_t underway = 0;       // sent, and not complete
  std::vector<uint64_t> spare;  // taken out of the fill ring, and not used
  uint64_t found_empty = 0;

  // False: the program has given none.
  bool take_frame(uint64_t& address) {
    if (!spare.empty()) {
      address = spare.back();
      spare.pop_back();
      return true;
    }
    const uint64_t* const first = fill.front();
    if (first == nullptr) return false;
    address = *first;
    fill.pop();
    return true;
  }
};

struct xsk_socket {
  xsk_umem* umem;
  KernelRing<xdp_desc> received;
  KernelRing<xdp_desc> sent;
  int event;           // readable while the receive ring has frames
  std::mutex sending;  // guards the kernel's end of the transmit ring
  uint64_t dropped = 0;
  uint64_t found_full = 0;

  void deliver(std::string_view frame) {
    const std::lock_guard guard(umem->mutex);
    uint64_t address = 0;
    if (!umem->take_frame(address)) {
      ++umem->found_empty;
      ++dropped;
      return;
    }
    const uint64_t at = address + rubato::testing::kHeadroom;
    std::memcpy(umem->memory + at, frame.data(), frame.size());
    if (!received.push({at, static_cast<uint32_t>(frame.size()), 0})) {
      ++found_full;
      umem->spare.push_back(address);
      return;
    }
    const uint64_t one = 1;
    RUBATO_CHECK(::write(event, &one, sizeof one) == sizeof one);
  }

  ssize_t transmit() {
    const std::lock_guard guard(sending);
    for (int left = rubato::testing::kMostPerCall; const xdp_desc* next = sent.front(); --left) {
      if (left == 0 || !begin_one()) {
        errno = EAGAIN;
        return -1;
      }
      MemoryLink::current()->carry({umem->memory + next->addr, next->len}, *umem, next->addr);
      sent.pop();
    }
    return 0;
  }
  // Called before the program waits for it.
  void settle() {
    const std::lock_guard guard(umem->mutex);
    uint64_t count = 0;
    if (received.filled() == 0) static_cast<void>(::read(event, &count, sizeof count));
  }
  xdp_statistics statistics() {
    const std::lock_guard guard(umem->mutex);
    xdp_statistics counts{};
    counts.rx_dropped = dropped;
    counts.rx_ring_full = found_full;
    counts.rx_fill_ring_empty_descs = umem->found_empty;
    return counts;
  }

 private:
  bool begin_one() {
    const std::lock_guard guard(umem->mutex);
    if (umem->underway + umem->completed.filled() == umem->completed.size()) return false;
    ++umem->underway;
    return true;
  }
};

namespace rubato::testing {

MemoryLink::MemoryLink(uint32_t hardware_queues, uint32_t workers)
    : hardware_queues_(hardware_queues) {
  RUBATO_CHECK(the_link == nullptr);
  for (uint32_t group = 0; group < kSteeringGroups; ++group) table_[group] = group % workers;
  the_link = this;
}

MemoryLink::~MemoryLink() { the_link = nullptr; }

MemoryLink* MemoryLink::current() { return the_link; }

bool MemoryLink::move(uint32_t group, uint32_t worker) {
  return table_[group].exchange(worker, std::memory_order_relaxed) != worker;
}

uint32_t MemoryLink::worker_of(uint32_t group) const {
  return table_[group].load(std::memory_order_relaxed);
}

void MemoryLink::add(xsk_socket& socket) {
  const std::lock_guard guard(mutex_);
  sockets_.push_back(&socket);
}

void MemoryLink::remove(const xsk_socket& socket) {
  const std::lock_guard guard(mutex_);
  std::erase(sockets_, &socket);
}

xsk_socket* MemoryLink::find(int file) const {
  const std::lock_guard guard(mutex_);
  const auto at = std::find_if(sockets_.begin(), sockets_.end(),
                               [file](const xsk_socket* each) { return each->event == file; });
  return at == sockets_.end() ? nullptr : *at;
}

// The card deals by other bits of the port than the table.
void MemoryLink::send(uint16_t from, std::string_view payload) {
  std::array<char, kFrameHalfBytes> frame;
  char* const to = frame.data() + xdp::kMostHeaderBytes;
  std::copy(payload.begin(), payload.end(), to);
  DatagramPeer server;
  server.address = {10, 77, 0, 1};
  server.local = {10, 77, 0, 2};
  server.port = kServerPort;
  server.local_port = from;
  server.mac = kServerMac;
  server.local_mac = kClientMac;
  const char* const first = xdp::write_headers(to, payload.size(), server);
  const uint32_t worker = worker_of(from & (kSteeringGroups - 1));
  xsk_socket* socket = nullptr;
  {
    const std::lock_guard guard(mutex_);
    socket = sockets_[worker * hardware_queues_ + from / kSteeringGroups % hardware_queues_];
  }
  socket->deliver({first, static_cast<size_t>(to + payload.size() - first)});
}

void MemoryLink::carry(std::string_view frame, xsk_umem& memory, uint64_t address) {
  xdp::ParsedFrame parsed;
  RUBATO_CHECK(xdp::parse_frame(frame, parsed));
  const std::lock_guard guard(mutex_);
  sent_[parsed.peer.local_port].push_back({std::string(parsed.payload), &memory, address});
}

std::string MemoryLink::receive(uint16_t at) {
  Sent first;
  {
    const std::lock_guard guard(mutex_);
    std::deque<Sent>& sent = sent_[at];
    if (sent.empty()) return {};
    first = std::move(sent.front());
    sent.pop_front();
  }
  const std::lock_guard guard(first.memory->mutex);
  --first.memory->underway;
  RUBATO_CHECK(first.memory->completed.push(first.address));
  return std::move(first.payload);
}

uint32_t MemoryLink::underway() const {
  const std::lock_guard guard(mutex_);
  uint32_t sum = 0;
  for (uint32_t i = 0; i < hardware_queues_; ++i) {
    const std::lock_guard memory(sockets_[i]->umem->mutex);
    sum += sockets_[i]->umem->underway + static_cast<uint32_t>(sockets_[i]->umem->spare.size());
  }
  return sum;
}

}  // namespace rubato::testing

// ---- What libxdp has --------------------------------------------------------------------------

extern "C" {

int xsk_umem__create(xsk_umem** umem, void* area, __u64, xsk_ring_prod* fill, xsk_ring_cons* comp,
                     const xsk_umem_config* config) {
  *umem = new xsk_umem{.memory = static_cast<char*>(area),
                       .fill = KernelRing<uint64_t>(config->fill_size),
                       .completed = KernelRing<uint64_t>(config->comp_size),
                       .mutex = {},
                       .spare = {}};
  (*umem)->fill.lend(*fill);
  (*umem)->completed.lend(*comp);
  return 0;
}

int xsk_umem__delete(xsk_umem* umem) {
  delete umem;
  return 0;
}

int xsk_socket__create_shared(xsk_socket** socket, const char*, __u32, xsk_umem* umem,
                              xsk_ring_cons* rx, xsk_ring_prod* tx, xsk_ring_prod*,
                              xsk_ring_cons*, const xsk_socket_config* config) {
  *socket = new xsk_socket{.umem = umem,
                           .received = KernelRing<xdp_desc>(config->rx_size),
                           .sent = KernelRing<xdp_desc>(config->tx_size, true),
                           .event = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC),
                           .sending = {}};
  RUBATO_CHECK((*socket)->event >= 0);
  (*socket)->received.lend(*rx);
  (*socket)->sent.lend(*tx);
  MemoryLink::current()->add(**socket);
  return 0;
}

void xsk_socket__delete(xsk_socket* socket) {
  MemoryLink::current()->remove(*socket);
  ::close(socket->event);
  delete socket;
}

int xsk_socket__fd(const xsk_socket* socket) { return socket->event; }

// ---- System calls -------------------------------------------------------------------------------

ssize_t __real_sendto(int file, const void* data, size_t size, int flags, const sockaddr* to,
                      socklen_t length);
int __real_getsockopt(int file, int level, int option, void* value, socklen_t* length);
int __real_ppoll(pollfd* files, nfds_t count, const timespec* limit, const sigset_t* mask);

static xsk_socket* socket_of(int file) {
  const MemoryLink* const link = MemoryLink::current();
  return link == nullptr ? nullptr : link->find(file);
}

ssize_t __wrap_sendto(int file, const void* data, size_t size, int flags, const sockaddr* to,
                      socklen_t length) {
  xsk_socket* const socket = socket_of(file);
  return socket != nullptr ? socket->transmit()
                           : __real_sendto(file, data, size, flags, to, length);
}

int __wrap_getsockopt(int file, int level, int option, void* value, socklen_t* length) {
  xsk_socket* const socket = level == SOL_XDP ? socket_of(file) : nullptr;
  if (socket == nullptr) return __real_getsockopt(file, level, option, value, length);
  if (option != XDP_STATISTICS) return errno = ENOPROTOOPT, -1;
  const xdp_statistics counts = socket->statistics();
  std::memcpy(value, &counts, std::min<size_t>(*length, sizeof counts));
  return 0;
}

int __wrap_ppoll(pollfd* files, nfds_t count, const timespec* limit, const sigset_t* mask) {
  for (nfds_t i = 0; i < count; ++i) {
    if (xsk_socket* const socket = socket_of(files[i].fd)) socket->settle();
  }
  return __real_ppoll(files, count, limit, mask);
}

}  // extern "C"
