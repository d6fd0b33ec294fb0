// SPDX-License-Identifier: Apache-2.0
//
// LoopbackWire: the two directions of one in-process connection, what a pair of socket buffers is
// to TCP; LoopbackFlow: the server's end of it. A wire is shared by its client and its queue and
// guarded by its own mutex, which is held for a copy and never while another is taken. Any thread.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>

#include "datapath/loopback.h"

namespace rubato {

class LoopbackFlow;

class LoopbackWire {
 public:
  LoopbackWire(uint64_t id, LoopbackQueue& queue, size_t limit_bytes)
      : id_(id), queue_(queue), limit_bytes_(limit_bytes) {}

  uint64_t id() const { return id_; }
  LoopbackQueue& queue() { return queue_; }

  // Client. reserve = room for a submit that will be delivered; false = closed or full, the latter
  // told by `full`.
  bool reserve(size_t size, bool& full);
  void unreserve(size_t size);
  void deliver(std::string_view bytes, Instant at);
  void deliver_end();
  void reset();
  // False = closed by the server and nothing left; `resumed` = the server waits for room.
  bool take(std::string& to, bool& resumed);
  void await(size_t size, Nanos limit);
  bool closed() const;

  // Server.
  Transfer receive(char* to, size_t room, Instant& when);
  Transfer transmit(std::string_view bytes, const LoopbackReply& on_reply);
  void close();
  bool ended() const;

  // One entry in the queue's list of events at a time. True = the caller must make it.
  bool mark_event() { return !event_.exchange(true, std::memory_order_acq_rel); }
  void clear_event() { event_.exchange(false, std::memory_order_acq_rel); }

  // For the holder of the queue's poll lock.
  LoopbackFlow* flow = nullptr;
  bool accepted = false;
  // For the holder of the queue's own mutex: when the last submit in transit comes out.
  Instant last_due;

 private:
  const uint64_t id_;
  LoopbackQueue& queue_;
  const size_t limit_bytes_;
  std::atomic<bool> event_{false};

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::string in_;  // submitted and arrived, from in_begin_ on not yet received
  size_t in_begin_ = 0;
  size_t in_reserved_ = 0;  // arrived or in transit, not yet received
  Instant arrived_;
  std::string out_;
  bool end_ = false;          // the client sends no more
  bool reset_ = false;        // the client is gone
  bool closed_ = false;       // the server is
  bool wants_room_ = false;   // a transmit found none
};

class LoopbackFlow final : public StreamFlow {
 public:
  LoopbackFlow(FlowHost& host, std::shared_ptr<LoopbackWire> wire, std::string peer,
               Instant opened, const LoopbackReply& on_reply);
  ~LoopbackFlow() override { wire_->flow = nullptr; }

  LoopbackWire& wire() { return *wire_; }

 protected:
  Transfer receive(char* to, size_t room, bool, Instant& when) override {
    return wire_->receive(to, room, when);
  }
  Transfer transmit(std::string_view bytes) override {
    return wire_->transmit(bytes, on_reply_);
  }
  void hang_up() override;

 private:
  const std::shared_ptr<LoopbackWire> wire_;
  const LoopbackReply& on_reply_;
};

}  // namespace rubato
