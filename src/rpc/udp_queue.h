// SPDX-License-Identifier: Apache-2.0
//
// UdpQueue: one worker's queue and its sessions; UdpFlow: one of them. See udp.h.
//
// The poll lock guards everything in the queue that is not atomic. Flows never leave their home, so
// the holder of its lock (or its destructor) frees them, and a flow found among the sessions under
// the lock lives as long as the lock is held.
#pragma once

#include <array>
#include <mutex>
#include <unordered_map>

#include "datapath/guest_queue.h"
#include "datapath/owner_queue.h"
#include "datapath/stream_flow.h"
#include "rpc/frames.h"
#include "rpc/udp.h"

namespace rubato::rpc {

// The identity of a session. The same address may belong to two hosts on two networks.
struct SessionKey {
  std::array<uint8_t, 16> address{};
  uint32_t scope = 0;
  uint16_t vlan = 0;  // its id
  uint16_t port = 0;
  uint32_t session = 0;

  bool operator==(const SessionKey&) const = default;
};

struct SessionKeyHash {
  size_t operator()(const SessionKey& key) const;
};

class UdpFlow final : public StreamFlow {
 public:
  // Bound on the unread datagrams of one session; a client may have 63 requests unanswered.
  static constexpr size_t kInboxBytes = 64 * kMaxDatagramBytes;

  UdpFlow(UdpQueue& queue, FlowHost& host, uint64_t id, const DatagramPeer& peer,
          const SessionKey& key, Instant opened);
  ~UdpFlow() override;

  // Called by the queue's poller, before on_event. The session's answers go to `from` from now on,
  // whose Ethernet address may be another one. False: the inbox is full.
  bool put(std::string_view datagram, const DatagramPeer& from, Instant when);

  void abort() override { request_push(); }

 protected:
  Transfer receive(char* to, size_t room, bool exact, Instant& when) override;
  Transfer transmit(std::string_view bytes) override;
  void hang_up() override {}
  bool rewire(FlowHost&, FlowHost&) override { return false; }
  void unwire(FlowHost&) override {}

 private:
  UdpQueue& queue_;
  const SessionKey key_;
  std::mutex mutex_;  // guards the fields below: the owner reads them, perhaps on another worker
  DatagramPeer address_;
  std::string inbox_;
  size_t taken_ = 0;  // of inbox_
  Instant came_;      // arrival of its last datagram
};

class UdpQueue final : public GuestQueue {
 public:
  UdpQueue(UdpDatapath::Shared& shared, WorkerId worker);
  ~UdpQueue() override;

  uint32_t poll(std::span<Request*> out) override;
  bool pending() const override;
  Request* finish(Request& request) override { return StreamFlow::of(request).finished(request); }
  void flush(Request& request) override;
  void wait_by(Nanos limit, const Sleep& sleep) override;

  // Sends a frame, which may be lost as on any wire. Any thread.
  void send(std::string_view frame, const DatagramPeer& to) { shared_.wire->send(to, frame); }
  // Removes the session of a flow that is freed.
  void forget(const SessionKey& key) { sessions_.erase(key); }

  const FlowRegistry& registry() const { return owner_queue_.registry(); }
  void add_to(DatapathStats& stats) const;
  void add_to(UdpDrops& drops) const;

 private:
  static constexpr uint32_t kLooksPerPoll = 8;  // as datagrams need not be requests

  uint32_t take(std::string_view datagram, const DatagramPeer& from, std::span<Request*> out,
                Instant now, bool late);
  uint64_t token_of(const SessionKey& key) const;
  void answer_without_token(const Message& message, const SessionKey& key, std::string_view frame,
                            const DatagramPeer& from);
  UdpFlow* open(const SessionKey& key, const DatagramPeer& from, Instant now);
  void refuse(std::string_view frame, const DatagramPeer& to, Fault fault);
  void send_header(const Message& message, const DatagramPeer& to);
  void reap();

  UdpDatapath::Shared& shared_;
  // Outlives owner_queue_, which owns the flows.
  std::unordered_map<SessionKey, UdpFlow*, SessionKeyHash> sessions_;
  OwnerQueue owner_queue_;
  std::array<Datagram, limits::kBurst> arrived_;
  Instant last_poll_;
  bool left_some_ = false;  // the last poll, full already, may have left datagrams in the queue
  std::atomic<uint64_t> refused_{0};
  std::atomic<uint64_t> malformed_{0};
  std::atomic<uint64_t> no_session_{0};
  std::atomic<uint64_t> no_token_{0};
  std::atomic<uint64_t> full_{0};
};

}  // namespace rubato::rpc
