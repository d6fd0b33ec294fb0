// SPDX-License-Identifier: Apache-2.0
//
// FlowSet: the connections of one run with RESP, memcached's text protocol or HTTP. It opens them,
// sends requests, cuts the received bytes into replies, and reopens connections that the server
// closes (a bounded number of times). One owner at a time; the set owns its sockets and the
// requests outstanding on them. A connection that the server closes by agreement (HTTP's
// Connection: close) is no failure and counts against no bound.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "load/channel.h"
#include "load/flows.h"
#include "load/idle_flows.h"
#include "load/options.h"
#include "load/reply_reader.h"

namespace rubato::load {

// Requests of one connection in the order of their replies.
class OutstandingFifo {
 public:
  bool empty() const { return head_ == items_.size(); }
  size_t size() const { return items_.size() - head_; }
  void push(const Outstanding& item) { items_.push_back(item); }
  // Requires !empty().
  Outstanding pop();

 private:
  static constexpr size_t kCompactFrom = 1024;
  std::vector<Outstanding> items_;
  size_t head_ = 0;
};

class FlowSet final : public Flows {
 public:
  FlowSet(Endpoint endpoint, const LoadOptions& options, FlowEvents& events);
  FlowSet(const FlowSet&) = delete;
  FlowSet& operator=(const FlowSet&) = delete;
  ~FlowSet() override;

  Status open_all(uint32_t count) override;
  uint32_t pick_idle(Prng& prng) override;
  uint32_t pick_any(Prng& prng) override;
  void send(uint32_t flow, std::string_view bytes, const Outstanding& request) override;
  Status poll(Instant now) override;
  void wait(Nanos limit) override {
    if (unread_.empty()) nap_until_readable(epoll_, limit);
  }
  uint64_t outstanding() const override { return outstanding_; }
  void abandon() override;

 private:
  enum class State : uint8_t { kConnecting, kReady, kDown };
  struct Flow {
    Channel channel;
    State state = State::kDown;
    ReplyReader parser;
    OutstandingFifo waiting;
    std::string unsent;  // bytes for which the socket had no room
    uint32_t reconnects = 0;
    Instant retry_at = Instant::never();
  };

  bool watch(uint32_t index, bool add);
  void ready(uint32_t index);
  void flush(uint32_t index);
  void close_flow(uint32_t index);
  // Closes its connection; all that is outstanding on it is lost.
  void drop(Flow& flow);
  // Gives up the connection as agreed with the server, and connects anew at once.
  void renew(uint32_t index);
  void reconnect(uint32_t index);
  void reconnect_due(Instant now);
  void connected(uint32_t index);
  void receive(uint32_t index);
  void receive_rest();
  void consume(uint32_t index, const char* data, size_t size, Instant at);
  void take_reply(Flow& flow, Instant at);

  static constexpr size_t kReceiveBytes = 32 * 1024;
  static constexpr int kEventsPerPoll = 64;

  Endpoint endpoint_;
  const Protocol protocol_;
  TlsConnector* const tls_;
  std::string auth_;  // the AUTH command, or empty
  FlowEvents& events_;
  Fd epoll_;
  std::vector<Flow> flows_;
  std::vector<uint32_t> unread_;  // flows whose channel holds bytes that epoll does not tell of
  IdleFlows idle_;
  std::unique_ptr<char[]> buffer_;
  uint64_t outstanding_ = 0;
  uint32_t down_ = 0;  // flows in kDown that will be retried
  uint32_t gone_ = 0;  // flows in kDown for good
  Instant now_;
  std::string fatal_;        // set when the run cannot go on
  std::string last_notice_;  // an error that answers no request, e.g. at the server's limit
};

}  // namespace rubato::load
