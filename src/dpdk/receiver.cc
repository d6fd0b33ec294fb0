// SPDX-License-Identifier: Apache-2.0
#include "dpdk/receiver.h"

#include <rte_errno.h>

#include <array>
#include <cstring>

namespace rubato::dpdk {
namespace {

// As far as the card has looked.
bool has_wrong_checksum(const rte_mbuf* frame) {
  return (frame->ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK) == RTE_MBUF_F_RX_L4_CKSUM_BAD;
}

}  // namespace

Status Receiver::start(uint32_t workers) {
  queues_ = std::vector<Queue>(port_.receive_queues());
  for (uint32_t worker = 0; worker < workers; ++worker) {
    const std::string name =
        "rubato_" + std::to_string(port_.id()) + "_" + std::to_string(worker);
    inboxes_.emplace_back(rte_ring_create(name.c_str(), kInboxFrames,
                                          rte_eth_dev_socket_id(port_.id()),
                                          RING_F_MP_RTS_ENQ | RING_F_SC_DEQ |
                                              RING_F_EXACT_SZ));
    if (inboxes_.back() == nullptr) {
      return Error{std::string("dpdk: a ring of frames: ") + rte_strerror(rte_errno)};
    }
  }
  return Done{};
}

bool Receiver::look(uint32_t worker, Instant now) {
  if (steering_.by_card()) return take_from(static_cast<uint16_t>(worker), now);
  const auto count = static_cast<uint32_t>(queues_.size());
  bool ended = true;
  for (uint32_t i = 0; i < count; ++i) {
    ended = take_from(static_cast<uint16_t>((worker + i) % count), now) && ended;
  }
  return ended;
}

bool Receiver::take_from(uint16_t queue, Instant now) {
  Queue& from = queues_[queue];
  if (from.taken.exchange(true, std::memory_order_acquire)) return false;
  std::array<rte_mbuf*, kBurst> frames;
  const uint32_t count = port_.receive(queue, frames);
  for (uint32_t i = 0; i < count; ++i) {
    xdp::fetch_frame(rte_pktmbuf_mtod(frames[i], const char*), reply_of(frames[i]));
  }
  for (uint32_t i = 0; i < count; ++i) sort(queue, frames[i], now);
  from.taken.store(false, std::memory_order_release);
  return count < kBurst;
}

// Where a reply's headers and payload will lie, or the answer's last bytes, is free.
bool Receiver::has_room(const rte_mbuf* frame) {
  constexpr size_t kMost = kReplyOffset - xdp::kMostHeaderBytes - kMostAnswerGrowth;
  return frame->data_off + frame->data_len <= kMost;
}

// A frame of the port's pool that nobody else refers to. Ports made of rings pass on what others
// made: frames of their pools, which have no room for a reply, or that only refer to other bytes.
rte_mbuf* Receiver::own(rte_mbuf* frame, Queue& queue) {
  if (frame->pool == port_.pool() && RTE_MBUF_DIRECT(frame) && rte_mbuf_refcnt_read(frame) == 1) {
    return frame;
  }
  rte_mbuf* const copy = port_.allocate();
  char* const to =
      copy == nullptr ? nullptr : rte_pktmbuf_append(copy, rte_pktmbuf_data_len(frame));
  if (to != nullptr) {
    std::memcpy(to, rte_pktmbuf_mtod(frame, const char*), rte_pktmbuf_data_len(frame));
    copy->ol_flags = frame->ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK;
  } else {
    ++(copy == nullptr ? queue.no_frame : queue.malformed);
    rte_pktmbuf_free(copy);
  }
  rte_pktmbuf_free(frame);
  return to != nullptr ? copy : nullptr;
}

void Receiver::sort(uint16_t queue, rte_mbuf* frame, Instant now) {
  Queue& counts = queues_[queue];
  if (frame->nb_segs != 1) {
    ++counts.malformed;
    return rte_pktmbuf_free(frame);
  }
  frame = own(frame, counts);
  if (frame == nullptr) return;
  if (!has_room(frame)) {
    ++counts.malformed;
    return rte_pktmbuf_free(frame);
  }
  FrameNote& note = note_of(frame);
  note.arrived = now;
  sort_frame(rte_pktmbuf_mtod(frame, char*), frame->data_len, port_.host(), note.sorted);
  switch (note.sorted.kind) {
    case FrameKind::kDatagram:
      if (!has_wrong_checksum(frame)) return hand_over(queue, frame);
      ++counts.malformed;
      break;
    case FrameKind::kAnswer: return answer(queue, frame, note.sorted.answer_bytes);
    case FrameKind::kNeighbour: port_.neighbour().heard(note.sorted.datagram.peer); break;
    case FrameKind::kFragment: ++counts.fragments; break;
    case FrameKind::kMalformed: ++counts.malformed; break;
    case FrameKind::kOther: ++counts.passed; break;
  }
  rte_pktmbuf_free(frame);
}

// What the ring does not take is lost, and asked again.
void Receiver::answer(uint16_t queue, rte_mbuf* frame, size_t bytes) {
  frame->data_len = static_cast<uint16_t>(bytes);
  frame->pkt_len = static_cast<uint32_t>(bytes);
  frame->ol_flags = 0;
  const auto by = static_cast<uint16_t>(queue % port_.transmit_queues());
  if (port_.transmit(by, {&frame, 1}).frames == 0) rte_pktmbuf_free(frame);
}

void Receiver::hand_over(uint16_t queue, rte_mbuf* frame) {
  const uint32_t worker =
      steering_.by_card() ? queue
                          : steering_.worker_of(group_of(note_of(frame).sorted.datagram.peer));
  if (rte_ring_enqueue(inboxes_[worker].get(), frame) == 0) return;
  ++queues_[queue].inbox_full;
  rte_pktmbuf_free(frame);
}

uint32_t Receiver::take(uint32_t worker, std::span<rte_mbuf*> out) {
  return rte_ring_dequeue_burst(inboxes_[worker].get(), reinterpret_cast<void**>(out.data()),
                                static_cast<unsigned>(out.size()), nullptr);
}

void Receiver::add_to(DatagramDrops& drops) const {
  for (const Queue& queue : queues_) {
    drops.malformed += queue.malformed.value();
    drops.fragments += queue.fragments.value();
    drops.passed += queue.passed.value();
    drops.no_frame += queue.no_frame.value();
    drops.ring_full += queue.inbox_full.value();
  }
}

}  // namespace rubato::dpdk
