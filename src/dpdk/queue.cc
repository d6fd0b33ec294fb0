// SPDX-License-Identifier: Apache-2.0
#include "dpdk/queue.h"

#include <algorithm>
#include <cstring>
#include <mutex>

namespace rubato::dpdk {
namespace {

rte_mbuf* frame_of(const Datagram& datagram) { return static_cast<rte_mbuf*>(datagram.frame); }

// The card computes the checksum of UDP, from that of the pseudo header on.
void ask_for_checksum(rte_mbuf* frame, const DatagramPeer& to, size_t headers) {
  constexpr size_t kUdpBytes = 8;
  const size_t ip = to.ipv6 ? 40 : 20;
  frame->l2_len = (headers - kUdpBytes - ip) & 0x7f;  // as wide as the field
  frame->l3_len = ip & 0x1ff;
  frame->ol_flags =
      RTE_MBUF_F_TX_UDP_CKSUM | (to.ipv6 ? RTE_MBUF_F_TX_IPV6 : RTE_MBUF_F_TX_IPV4);
}

}  // namespace

DpdkQueue::DpdkQueue(Port& port, Receiver& receiver, const DpdkWireOptions& options,
                     uint32_t worker)
    : port_(port),
      receiver_(receiver),
      worker_(worker),
      sends_by_(static_cast<uint16_t>(worker % port.transmit_queues())),
      nap_(options.nap),
      clock_(options.clock) {}

DpdkQueue::~DpdkQueue() {
  for (uint32_t i = 0; i < unsent_; ++i) rte_pktmbuf_free(frames_[i]);
}

uint32_t DpdkQueue::receive(std::span<Datagram> out, Instant now, bool) {
  uint32_t taken = take(out);
  const bool ended = taken < out.size() && receiver_.look(worker_, now);
  taken += take(out.subspan(taken));
  left_over_.store(!ended || receiver_.has(worker_), std::memory_order_relaxed);
  return taken;
}

uint32_t DpdkQueue::take(std::span<Datagram> out) {
  std::array<rte_mbuf*, limits::kBurst> frames;
  const uint32_t count =
      receiver_.take(worker_, std::span(frames).first(std::min(out.size(), frames.size())));
  for (uint32_t i = 0; i < count; ++i) {
    const FrameNote& note = note_of(frames[i]);
    Datagram& to = out[i];
    to.bytes = note.sorted.datagram.payload;
    to.cut_off = false;
    to.arrived = note.arrived;
    to.peer = note.sorted.datagram.peer;
    to.room = {reply_of(frames[i]), port_.most_payload()};
    to.frame = frames[i];
  }
  return count;
}

// The port is asked, too: its receive queues cannot be looked into without taking what is there.
bool DpdkQueue::pending() const {
  if (!receiver_.has(worker_)) receiver_.look(worker_, clock_());
  return receiver_.has(worker_);
}

void DpdkQueue::release(const Datagram& datagram) { rte_pktmbuf_free(frame_of(datagram)); }

void DpdkQueue::reply(const Datagram& datagram, size_t size) {
  enqueue(frame_of(datagram), datagram.peer, size);
}

void DpdkQueue::send(const DatagramPeer& to, std::string_view bytes) {
  if (to.mac == decltype(to.mac){}) return send_to_neighbour(to, bytes);
  rte_mbuf* const frame = bytes.size() > port_.most_payload() ? nullptr : port_.allocate();
  if (frame == nullptr) {
    lost_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  std::memcpy(reply_of(frame), bytes.data(), bytes.size());
  enqueue(frame, to, bytes.size());
}

void DpdkQueue::send_to_neighbour(DatagramPeer to, std::string_view bytes) {
  to.local = port_.host().ip;
  to.local_mac = port_.host().mac;
  if (port_.neighbour().find(to)) return send(to, bytes);
  lost_.fetch_add(1, std::memory_order_relaxed);
  ask_for(to);
}

void DpdkQueue::ask_for(const DatagramPeer& to) {
  rte_mbuf* const frame = port_.allocate();
  char* const at = frame == nullptr ? nullptr : rte_pktmbuf_append(frame, kMostQuestionBytes);
  if (at == nullptr) return rte_pktmbuf_free(frame);
  const auto bytes = static_cast<uint16_t>(ask_for_neighbour(at, port_.host(), to.address));
  frame->data_len = bytes;
  frame->pkt_len = bytes;
  frame->ol_flags = 0;
  put(frame);
}

void DpdkQueue::enqueue(rte_mbuf* frame, const DatagramPeer& to, size_t size) {
  const auto checksum = port_.computes_checksums() ? xdp::UdpChecksum::kPseudoHeader
                                                   : xdp::UdpChecksum::kWhole;
  char* const payload = reply_of(frame);
  const char* const first = xdp::write_headers(payload, size, to, checksum);
  const auto bytes = static_cast<uint16_t>(payload + size - first);
  frame->data_off = static_cast<uint16_t>(first - static_cast<char*>(frame->buf_addr));
  frame->data_len = bytes;
  frame->pkt_len = bytes;
  frame->tx_offload = 0;
  frame->ol_flags = 0;
  if (port_.computes_checksums()) ask_for_checksum(frame, to, xdp::header_bytes(to));
  put(frame);
}

void DpdkQueue::put(rte_mbuf* frame) {
  const std::lock_guard guard(lock_);
  if (unsent_.load(std::memory_order_relaxed) == kBatch) push_locked();
  if (unsent_.load(std::memory_order_relaxed) == kBatch) {
    lost_.fetch_add(1, std::memory_order_relaxed);
    return rte_pktmbuf_free(frame);
  }
  const uint32_t count = unsent_.load(std::memory_order_relaxed);
  frames_[count] = frame;
  unsent_.store(count + 1, std::memory_order_relaxed);
  if (count + 1 == kBatch) push_locked();
}

void DpdkQueue::push() {
  if (unsent() == 0) return;
  const std::lock_guard guard(lock_);
  push_locked();
}

void DpdkQueue::lose(uint32_t first, uint32_t end) {
  for (uint32_t i = first; i < end; ++i) rte_pktmbuf_free(frames_[i]);
  lost_.fetch_add(end - first, std::memory_order_relaxed);
}

// What the port's ring has no room for stays for the next push, unless it has had none for long:
// a drain waits for what is unsent.
void DpdkQueue::push_locked() {
  const uint32_t count = unsent_.load(std::memory_order_relaxed);
  uint32_t done = 0;
  for (uint32_t tries = 0; done < count && tries < kMostTries; ++tries) {
    const auto taken = port_.transmit(sends_by_, std::span(frames_).subspan(done, count - done));
    done += taken.frames;
    if (!taken.refuses_next) continue;
    lose(done, done + 1);
    ++done;
  }
  failed_pushes_ = done > 0 ? 0 : failed_pushes_ + 1;
  if (failed_pushes_ == kMostFailedPushes) {
    lose(done, count);
    done = count;
    failed_pushes_ = 0;
  }
  std::copy(frames_.begin() + done, frames_.begin() + count, frames_.begin());
  unsent_.store(count - done, std::memory_order_relaxed);
}

}  // namespace rubato::dpdk
