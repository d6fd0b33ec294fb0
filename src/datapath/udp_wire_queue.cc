// SPDX-License-Identifier: Apache-2.0
#include "datapath/udp_wire_queue.h"

#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <mutex>

#include "datapath/datagram_address.h"

namespace rubato {
namespace {

constexpr uint32_t kFramesPerChunk = 64;

template <class T>
bool find(msghdr& message, int level, int type, T& value) {
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != level || part->cmsg_type != type) continue;
    std::memcpy(&value, CMSG_DATA(part), sizeof value);
    return true;
  }
  return false;
}

// Appends it to the message, whose ancillary data has room.
template <class T>
void append(msghdr& message, char* ancillary, int level, int type, const T& value) {
  cmsghdr part{};
  part.cmsg_level = level;
  part.cmsg_type = type;
  part.cmsg_len = CMSG_LEN(sizeof value);
  char* const at = ancillary + message.msg_controllen;
  std::memset(at, 0, CMSG_SPACE(sizeof value));
  std::memcpy(at, &part, sizeof part);
  std::memcpy(at + CMSG_LEN(0), &value, sizeof value);
  message.msg_control = ancillary;
  message.msg_controllen += CMSG_SPACE(sizeof value);
}

// The size of the datagrams that GRO has put together; 0 = it is one.
size_t segment_of(msghdr& message) {
  int size = 0;
  return find(message, IPPROTO_UDP, UDP_GRO, size) && size > 0 ? static_cast<size_t>(size) : 0;
}

// The address that it was sent to, where the socket has several.
void note_local(msghdr& message, DatagramPeer& peer) {
  if (peer.ipv6) {
    in6_pktinfo info{};
    if (!find(message, IPPROTO_IPV6, IPV6_PKTINFO, info)) return;
    std::memcpy(peer.local.data(), &info.ipi6_addr, sizeof info.ipi6_addr);
  } else {
    in_pktinfo info{};
    if (!find(message, IPPROTO_IP, IP_PKTINFO, info)) return;
    std::memcpy(peer.local.data(), &info.ipi_spec_dst, sizeof info.ipi_spec_dst);
  }
}

void send_from_local(msghdr& message, char* ancillary, const DatagramPeer& peer) {
  if (peer.local == decltype(peer.local){}) return;
  if (peer.ipv6) {
    in6_pktinfo info{};
    std::memcpy(&info.ipi6_addr, peer.local.data(), sizeof info.ipi6_addr);
    info.ipi6_ifindex = peer.scope;
    append(message, ancillary, IPPROTO_IPV6, IPV6_PKTINFO, info);
  } else {
    in_pktinfo info{};
    std::memcpy(&info.ipi_spec_dst, peer.local.data(), sizeof info.ipi_spec_dst);
    append(message, ancillary, IPPROTO_IP, IP_PKTINFO, info);
  }
}

}  // namespace

struct UdpWireQueue::Inbox {
  struct alignas(cmsghdr) Ancillary {
    char bytes[CMSG_SPACE(sizeof(timespec)) + CMSG_SPACE(sizeof(int)) +
               CMSG_SPACE(sizeof(in6_pktinfo))];
  };

  Inbox(uint32_t batch, size_t slot_bytes)
      : slot(slot_bytes), bytes(new char[batch * slot_bytes]) {}

  const size_t slot;
  std::unique_ptr<char[]> bytes;  // written by the kernel only
  std::array<sockaddr_storage, UdpWireOptions::kMostBatch> from;
  std::array<iovec, UdpWireOptions::kMostBatch> parts;
  std::array<mmsghdr, UdpWireOptions::kMostBatch> messages;
  std::array<Ancillary, UdpWireOptions::kMostBatch> ancillary;
  uint32_t count = 0;
  uint32_t next = 0;    // the message that is passed on next
  size_t offset = 0;    // in it
  size_t segment = 0;   // size of its datagrams; valid where offset is not 0
  bool ran_dry = true;  // the kernel had no more

  void receive(int socket, uint32_t most) {
    for (uint32_t i = 0; i < most; ++i) {
      parts[i] = {bytes.get() + i * slot, slot};
      messages[i] = {};
      messages[i].msg_hdr.msg_name = &from[i];
      messages[i].msg_hdr.msg_namelen = sizeof from[i];
      messages[i].msg_hdr.msg_iov = &parts[i];
      messages[i].msg_hdr.msg_iovlen = 1;
      messages[i].msg_hdr.msg_control = ancillary[i].bytes;
      messages[i].msg_hdr.msg_controllen = sizeof ancillary[i].bytes;
    }
    const int n = ::recvmmsg(socket, messages.data(), most, MSG_DONTWAIT, nullptr);
    count = n > 0 ? static_cast<uint32_t>(n) : 0;
    next = 0;
    offset = 0;
    ran_dry = count < most;
  }
  // The rest of the next message.
  void skip() {
    offset = 0;
    ++next;
  }
};

// A reply, in the frame that holds it or as a copy.
struct UdpWireQueue::Slot {
  DatagramPeer to;
  Frame* frame = nullptr;
  size_t size = 0;
  std::array<char, kMaxDatagramPayload> copy;

  char* bytes() { return frame != nullptr ? frame->room.data() : copy.data(); }
};

struct UdpWireQueue::Outbox {
  struct alignas(cmsghdr) Ancillary {
    char bytes[CMSG_SPACE(sizeof(uint16_t)) + CMSG_SPACE(sizeof(in6_pktinfo))];
  };

  std::array<Slot, UdpWireOptions::kMostBatch> slots;
  std::array<sockaddr_storage, UdpWireOptions::kMostBatch> to;
  std::array<iovec, UdpWireOptions::kMostBatch> parts;
  std::array<mmsghdr, UdpWireOptions::kMostBatch> messages;
  std::array<Ancillary, UdpWireOptions::kMostBatch> ancillary;
};

UdpWireQueue::UdpWireQueue(Fd socket, const UdpWireOptions& options)
    : socket_(std::move(socket)), file_(socket_.get()), batch_(options.batch) {
  const int on = 1;
  const int no_size = 0;
  const bool offload = options.offload && batch_ > 1;
  gro_ = offload && ::setsockopt(file_, IPPROTO_UDP, UDP_GRO, &on, sizeof on) == 0;
  gso_ = offload && ::setsockopt(file_, IPPROTO_UDP, UDP_SEGMENT, &no_size, sizeof no_size) == 0;
  // One byte more shows that a datagram was cut off.
  inbox_ = std::make_unique<Inbox>(batch_, gro_ ? kTrainBytes : kFrameHalfBytes + 1);
  outbox_ = std::make_unique<Outbox>();
}

UdpWireQueue::~UdpWireQueue() = default;

UdpWireQueue::Frame* UdpWireQueue::take_frame() {
  if (free_ == nullptr) free_ = returned_.take_all();
  if (free_ == nullptr) {
    if (chunks_.size() * kFramesPerChunk >= kMostFrames) return nullptr;
    chunks_.push_back(std::unique_ptr<Frame[]>(new Frame[kFramesPerChunk]));
    for (uint32_t i = 0; i < kFramesPerChunk; ++i) {
      Frame& frame = chunks_.back()[i];
      frame.home = this;
      frame.next_in_list = free_;
      free_ = &frame;
    }
  }
  return std::exchange(free_, free_->next_in_list);
}

// Takes messages from the kernel, at most `room`; false = it has none.
bool UdpWireQueue::refill(size_t room) {
  inbox_->receive(file_, static_cast<uint32_t>(std::min<size_t>(batch_, room)));
  return inbox_->count > 0;
}

uint32_t UdpWireQueue::receive(std::span<Datagram> out, Instant now, bool late) {
  uint32_t taken = 0;
  bool asked_last = false;
  while (taken < out.size()) {
    if (inbox_->next == inbox_->count) {
      if (asked_last || !refill(out.size() - taken)) break;
      asked_last = inbox_->ran_dry;
    }
    const DatagramPeer peer = peer_of(inbox_->from[inbox_->next]);
    if (peer.port == 0) {  // nobody to answer
      inbox_->skip();
      malformed_.fetch_add(1, std::memory_order_relaxed);
      continue;
    }
    Frame* const frame = take_frame();
    if (frame == nullptr) break;
    out[taken].peer = peer;
    take_next(out[taken], *frame, now, late);
    ++taken;
  }
  const bool more = inbox_->next != inbox_->count;
  if (left_over_.load(std::memory_order_relaxed) != more) {
    left_over_.store(more, std::memory_order_relaxed);
  }
  return taken;
}

// Fills in what is not known yet, which is all but the peer's address.
void UdpWireQueue::take_next(Datagram& to, Frame& frame, Instant now, bool late) {
  Inbox& inbox = *inbox_;
  const uint32_t at = inbox.next;
  msghdr& message = inbox.messages[at].msg_hdr;
  const size_t length = inbox.messages[at].msg_len;
  if (inbox.offset == 0) inbox.segment = segment_of(message);
  const size_t left = length - inbox.offset;
  const size_t size = inbox.segment > 0 ? std::min(inbox.segment, left) : left;
  const size_t kept = std::min(size, kFrameHalfBytes);
  std::memcpy(frame.bytes.data(), static_cast<char*>(inbox.parts[at].iov_base) + inbox.offset,
              kept);
  to.bytes = {frame.bytes.data(), kept};
  to.cut_off = size > kept;
  to.arrived = late ? received_at(message, now) : now;
  note_local(message, to.peer);
  to.room = frame.room;
  to.frame = &frame;
  inbox.offset += size;
  if (inbox.offset < length) return;
  inbox.skip();
}

bool UdpWireQueue::pending() const {
  if (has_left_over()) return true;
  pollfd p{file_, POLLIN, 0};
  return ::poll(&p, 1, 0) > 0;
}

void UdpWireQueue::release(const Datagram& datagram) {
  Frame& frame = *static_cast<Frame*>(datagram.frame);
  frame.home->returned_.push(frame);
}

void UdpWireQueue::reply(const Datagram& datagram, size_t size) {
  const std::lock_guard guard(lock_);
  Slot& slot = next_slot();
  slot.to = datagram.peer;
  slot.frame = static_cast<Frame*>(datagram.frame);
  slot.size = size;
  fill_slot();
}

void UdpWireQueue::send(const DatagramPeer& to, std::string_view bytes) {
  const std::lock_guard guard(lock_);
  Slot& slot = next_slot();
  if (bytes.size() > slot.copy.size()) {
    lost_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  slot.to = to;
  slot.frame = nullptr;
  slot.size = bytes.size();
  std::memcpy(slot.copy.data(), bytes.data(), slot.size);
  fill_slot();
}

UdpWireQueue::Slot& UdpWireQueue::next_slot() {
  return outbox_->slots[unsent_.load(std::memory_order_relaxed)];
}

void UdpWireQueue::fill_slot() {
  const uint32_t count = unsent_.load(std::memory_order_relaxed) + 1;
  unsent_.store(count, std::memory_order_relaxed);
  if (count == batch_) push_locked();
}

void UdpWireQueue::push() {
  if (unsent() == 0) return;
  const std::lock_guard guard(lock_);
  push_locked();
}

void UdpWireQueue::push_locked() {
  const uint32_t count = unsent_.load(std::memory_order_relaxed);
  if (count == 0) return;
  send_messages(pack());
  for (uint32_t i = 0; i < count; ++i) {
    Frame* const frame = outbox_->slots[i].frame;
    if (frame != nullptr) frame->home->returned_.push(*frame);
  }
  unsent_.store(0, std::memory_order_relaxed);
}

// Writes the messages that send the slots: one each, or one for those in a row that go to one peer
// and have one size, but for the last of them. Returns their number.
uint32_t UdpWireQueue::pack() {
  Outbox& out = *outbox_;
  const bool trains = sends_trains();
  const uint32_t slots = unsent_.load(std::memory_order_relaxed);
  uint32_t count = 0;
  for (uint32_t first = 0; first < slots;) {
    const size_t size = out.slots[first].size;
    size_t total = 0;
    uint32_t end = first;
    do {
      out.parts[end] = {out.slots[end].bytes(), out.slots[end].size};
      total += out.slots[end].size;
      ++end;
    } while (trains && end < slots && end - first < kMostSegments &&
             out.slots[end - 1].size == size && out.slots[end].size <= size &&
             total + out.slots[end].size <= kTrainBytes - 100 &&
             out.slots[end].to == out.slots[first].to);
    msghdr& message = out.messages[count].msg_hdr;
    message = {};
    message.msg_name = &out.to[count];
    message.msg_namelen = address_of(out.slots[first].to, out.to[count]);
    message.msg_iov = &out.parts[first];
    message.msg_iovlen = end - first;
    char* const ancillary = out.ancillary[count].bytes;
    send_from_local(message, ancillary, out.slots[first].to);
    if (end - first > 1) {
      append(message, ancillary, IPPROTO_UDP, UDP_SEGMENT, static_cast<uint16_t>(size));
    }
    ++count;
    first = end;
  }
  return count;
}

// A message that the kernel does not take is lost, and counted, but for a train: its datagrams are
// tried one by one. Why may be the peer's: its route may take no trains of this size.
void UdpWireQueue::send_messages(uint32_t count) {
  for (uint32_t next = 0; next < count;) {
    const int n = ::sendmmsg(file_, &outbox_->messages[next], count - next,
                             MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n > 0) {
      next += static_cast<uint32_t>(n);
      continue;
    }
    if (n < 0 && errno == EINTR) continue;
    const msghdr& refused = outbox_->messages[next].msg_hdr;
    if (refused.msg_iovlen > 1) {
      send_singly(next, static_cast<uint32_t>(refused.msg_iovlen));
    } else {
      lost_.fetch_add(1, std::memory_order_relaxed);
    }
    ++next;
  }
}

void UdpWireQueue::send_singly(uint32_t message, uint32_t count) {
  const msghdr& train = outbox_->messages[message].msg_hdr;
  for (uint32_t i = 0; i < count; ++i) {
    msghdr one{};
    one.msg_name = train.msg_name;
    one.msg_namelen = train.msg_namelen;
    one.msg_control = train.msg_control;  // without the size of segments, which is the last
    one.msg_controllen = train.msg_controllen - CMSG_SPACE(sizeof(uint16_t));
    one.msg_iov = train.msg_iov + i;
    one.msg_iovlen = 1;
    if (::sendmsg(file_, &one, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
      lost_.fetch_add(1, std::memory_order_relaxed);
    }
  }
}

void UdpWireQueue::add_to(DatagramDrops& drops) const {
  drops.malformed += malformed_.load(std::memory_order_relaxed);
  drops.unsent += lost_.load(std::memory_order_relaxed);
  std::array<uint32_t, SK_MEMINFO_VARS> memory{};
  socklen_t length = sizeof memory;
  if (::getsockopt(file_, SOL_SOCKET, SO_MEMINFO, memory.data(), &length) == 0) {
    drops.ring_full += memory[SK_MEMINFO_DROPS];
  }
}

}  // namespace rubato
