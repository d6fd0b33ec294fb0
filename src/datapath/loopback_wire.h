// SPDX-License-Identifier: Apache-2.0
//
// LoopbackWire: the two directions of one in-process connection, in place of TCP's pair of socket
// buffers; LoopbackFlow: the server's end of a wire. A wire is shared by its client and its queue
// and guarded by its own mutex, which is held for a copy and never while another mutex is taken.
// Any thread.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>

#include "datapath/loopback.h"

namespace rubato {

class LoopbackFlow;

class LoopbackWire {
 public:
  LoopbackWire(uint64_t id, LoopbackQueue& owner_queue, size_t limit_bytes)
      : id_(id), owner_queue_(owner_queue), queue_(&owner_queue), limit_bytes_(limit_bytes) {}

  uint64_t id() const { return id_; }
  // The wire's first queue, where submits are in transit; and the queue that gets its events.
  LoopbackQueue& owner_queue() { return owner_queue_; }
  LoopbackQueue& queue() { return *queue_.load(std::memory_order_relaxed); }

  // For the client. reserve makes room for a submit that will be delivered; false = the wire is
  // closed or full, where `full` tells which.
  bool reserve(size_t size, bool& full);
  void unreserve(size_t size);
  void deliver(std::string_view bytes, Instant at);
  void deliver_end();
  void reset();
  // False = the server has closed the wire and no byte is left; `resumed` = the server waits for
  // room.
  bool take(std::string& to, bool& resumed);
  void await(size_t size, Nanos limit);
  bool closed() const;

  // For the server.
  Transfer receive(char* to, size_t room, Instant& when);
  Transfer transmit(std::string_view bytes, const LoopbackReply& on_reply);
  void close();
  ClientState client() const;

  // A wire has one entry in a queue's list of events at a time. True = the caller must make the
  // entry, in the list of queue(), which it reads after this call.
  bool mark_event() { return !event_.exchange(true, std::memory_order_acq_rel); }
  void clear_event() { event_.exchange(false, std::memory_order_acq_rel); }

  // Events go to `to` from now on. The mark is cleared because its entry may stand, or be about to
  // stand, in the old list, which may not be looked at for long. A thread that marked earlier has
  // delivered before the new queue looks (the exchanges order it); a thread that marks later reads
  // `to`.
  void move_to(LoopbackQueue& to) {
    queue_.store(&to, std::memory_order_relaxed);
    clear_event();
  }

  // Written by the holder of a queue's poll lock; null when no flow is open. A flow that was moved
  // is removed from here before it tours the queues that it left (flow_route.h), so that a queue
  // which still has an entry for the wire finds the flow alive, or null.
  std::atomic<LoopbackFlow*> flow{nullptr};
  // Set at home before the flow can be moved.
  bool accepted = false;
  // The time when the last submit in transit comes out; guarded by the home queue's own mutex.
  Instant last_due;

 private:
  const uint64_t id_;
  LoopbackQueue& owner_queue_;
  std::atomic<LoopbackQueue*> queue_;
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
  bool closed_ = false;       // the server is gone
  bool wants_room_ = false;   // a transmit found no room
};

class LoopbackFlow final : public StreamFlow {
 public:
  LoopbackFlow(FlowHost& host, std::shared_ptr<LoopbackWire> wire, std::string peer,
               Instant opened, const LoopbackReply& on_reply);
  ~LoopbackFlow() override { unwire_now(); }

  LoopbackWire& wire() { return *wire_; }
  void abort() override;

 protected:
  Transfer receive(char* to, size_t room, bool, Instant& when) override {
    return wire_->receive(to, room, when);
  }
  Transfer transmit(std::string_view bytes) override {
    return wire_->transmit(bytes, on_reply_);
  }
  void hang_up() override { abort(); }
  bool rewire(FlowHost& from, FlowHost& to) override;
  void unwire(FlowHost&) override { unwire_now(); }

 private:
  void unwire_now() { wire_->flow.store(nullptr, std::memory_order_release); }

  const std::shared_ptr<LoopbackWire> wire_;
  const LoopbackReply& on_reply_;
};

}  // namespace rubato
