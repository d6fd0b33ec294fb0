// SPDX-License-Identifier: Apache-2.0
//
// TcpQueue: one worker's epoll instance, listener and connections. See tcp.h for the whole and
// stream_flow.h for one connection.
//
// poll and wait hold the poll lock (a try-lock: a thread that fails takes no request). The lock
// guards everything here that is not atomic, in particular the remembered events: a closed flow is
// freed only while none are remembered, here and at the queues that the flow has left
// (flow_route.h), so no event ever names a freed flow.
//
// Waking and delegation are those of wake_token.h, with an eventfd in the epoll instance. An event
// from the kernel ends the proxy poller's wait through this queue's epoll instance.
#pragma once

#include <sys/epoll.h>

#include <array>
#include <vector>

#include "base/limits.h"
#include "datapath/owner_queue.h"
#include "datapath/tcp.h"
#include "datapath/tcp_flow.h"
#include "datapath/wake_token.h"

namespace rubato {

class TcpQueue final : public DatapathQueue {
 public:
  static constexpr uint32_t kEventBurst = 64;   // events taken from the kernel at once
  static constexpr uint32_t kLooksPerPoll = 8;  // into the kernel, as events need not be requests
  // A TLS handshake takes about as long as fifty requests, which are not to wait for many of them.
  static constexpr uint32_t kHandshakesPerPoll = 2;
  static constexpr uint32_t kAcceptBurst = 16;  // connections accepted per listener event

  explicit TcpQueue(TcpDatapath::Shared& shared);

  // Set-up, before any other call: takes the listeners into service, one for each port.
  Status start(std::vector<Fd> listeners);

  uint32_t poll(std::span<Request*> out) override;
  bool pending() const override;
  Request* finish(Request& request) override { return StreamFlow::of(request).finished(request); }
  void flush(Request& request) override { StreamFlow::of(request).flush(); }
  bool flush_some(Request& request, size_t size_bytes) override {
    return StreamFlow::of(request).flush_some(size_bytes);
  }
  void look_at_client(Request& request) override;
  void wait(Nanos limit) override { wait(limit, {}); }
  void wait(Nanos limit, std::span<DatapathQueue* const> delegated) override;
  void wake() override;
  bool delegate_to(DatapathQueue* proxy) override;

  // Set-up: while the file is readable, no wait lasts. False, with errno: epoll does not take it.
  bool watch_guest(int file);

  // Any thread: no new connections from now on; the next poll closes idle flows.
  void drain();

  // From watch to unwatch the events of the flow come to this queue; its present state comes at
  // once. watch returns false when the kernel has no memory for it. Any thread that keeps the flow
  // from being freed.
  bool watch(TcpFlow& flow);
  void unwatch(const TcpFlow& flow);
  FlowHost& host() { return owner_queue_.host(); }

  const FlowRegistry& registry() const { return owner_queue_.registry(); }
  // Large replies of clients without TLS are sent in place. Any thread.
  bool sends_in_place() const { return sends_in_place_; }
  // Any thread; for stats.
  void add_to(DatapathStats& stats) const;

 private:
  bool harvest(uint32_t most, Nanos limit);
  void sleep_as_proxy(std::span<DatapathQueue* const> delegated, Nanos limit);
  bool remembers() const { return next_event_ < event_count_; }
  bool may_take_event() const { return remembers() && handshakes_ < kHandshakesPerPoll; }
  uint32_t take_events(std::span<Request*> out, Instant now, bool late);
  uint32_t take_event(const epoll_event& event, std::span<Request*> out, Instant now, bool late);
  void housekeep(Instant now, size_t most);
  void reap();
  void note_unfinished();

  Status use_busy_poll(Nanos length);
  bool allow_in_place();
  void accept_burst(uint32_t port, Instant now);
  bool accept_one(uint32_t port, Instant now);
  void admit(Fd socket, const SocketAddress& from, uint32_t port, Instant now);
  void refuse(Fd socket, const std::string& reply);
  std::string over_limit_reply(uint32_t port) const;
  bool has_tls(uint32_t port) const;
  void out_of_descriptors(uint32_t port, Instant now);
  bool hear_listeners();
  void leave_listeners();
  bool leaving() const {
    return owner_queue_.draining() || shared_.leaving.load(std::memory_order_relaxed);
  }
  // The listeners belong to whoever started this process, and outlive it.
  bool shares_listeners() const { return !shared_.options.handed_over.empty(); }

  TcpDatapath::Shared& shared_;
  OwnerQueue owner_queue_;  // its poll lock guards every field that is not atomic
  Fd epoll_;
  Fd event_;
  std::vector<Fd> listeners_;  // by port; events name them, so they stay where they are
  Fd reserve_;  // given up for a moment to refuse a connection when descriptors run out
  Instant last_poll_;
  bool left_some_ = false;  // the last poll was full, or had handshakes enough
  uint32_t handshakes_ = 0;  // events of connections at the handshake in this poll
  Instant accept_again_;  // a listener is out of epoll until this time; zero = all are in
  bool sends_in_place_ = false;  // set once, at the start
  bool accepts_ = true;   // the listeners are in service
  uint32_t next_event_ = 0;
  uint32_t event_count_ = 0;
  std::array<epoll_event, kEventBurst> events_;

  // remembers(), for pending
  alignas(limits::kCacheLineBytes) std::atomic<bool> unfinished_{false};
  std::atomic<uint64_t> refused_{0};
  WakeToken<DatapathQueue> wake_token_;
};

}  // namespace rubato
