// SPDX-License-Identifier: Apache-2.0
//
// FlowSet: the connections of one run. Opens them, sends requests, cuts the bytes that come back
// into replies, and reopens what the server closes (a bounded number of times). It never blocks
// after open_all(). One owner at a time; it owns sockets and the requests outstanding on them.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/prng.h"
#include "base/result.h"
#include "base/time.h"
#include "load/reply_parser.h"
#include "load/socket.h"

namespace rubato::load {

inline constexpr uint32_t kNoFlow = std::numeric_limits<uint32_t>::max();
inline constexpr uint32_t kMaxReconnects = 10;  // per connection, with kReconnectPause between
inline constexpr Nanos kReconnectPause = Nanos::millis(100);
inline constexpr Nanos kConnectTimeout = Nanos::seconds(3);

// A request on its way.
struct Outstanding {
  Instant due;    // when it was scheduled (closed loop: when it was sent)
  Nanos service;  // nominal, 0 = unknown
  uint32_t type = 0;
  bool measured = false;
  bool setup = false;  // AUTH and the like: none of the caller's requests
};

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

// Told of what happens inside poll(). Must not call back into the FlowSet.
class FlowEvents {
 public:
  virtual ~FlowEvents() = default;
  virtual void on_reply(const Outstanding& request, const ReplyParser& reply, Instant at) = 0;
  virtual void on_lost(const Outstanding& request) = 0;
  virtual void on_closed() = 0;
};

class FlowSet {
 public:
  FlowSet(Endpoint endpoint, std::string password, FlowEvents& events);
  FlowSet(const FlowSet&) = delete;
  FlowSet& operator=(const FlowSet&) = delete;
  ~FlowSet();

  // Connects `count` flows. Fails with one line if one of them cannot be connected.
  Status open_all(uint32_t count);

  // A flow without outstanding requests, or any usable one; kNoFlow if there is none.
  uint32_t pick_idle(Prng& prng) const;
  uint32_t pick_any(Prng& prng) const;

  // Requires a flow that pick returned since the last poll().
  void send(uint32_t flow, std::string_view bytes, const Outstanding& request);

  // Takes what the sockets have, without waiting. Fails when the run cannot go on: the stream is
  // not RESP, the password was refused, or every connection is gone for good.
  Status poll(Instant now);

  uint64_t outstanding() const { return outstanding_; }

  // Gives up on everything outstanding (on_lost for each).
  void abandon();

 private:
  enum class State : uint8_t { kConnecting, kReady, kDown };
  struct Flow {
    Fd fd;
    State state = State::kDown;
    ReplyParser parser;
    OutstandingFifo waiting;
    std::string unsent;  // bytes the socket had no room for
    uint32_t idle_slot = kNoFlow;
    uint32_t reconnects = 0;
    Instant retry_at = Instant::never();
  };

  bool watch(uint32_t index, bool add);
  void set_idle(uint32_t index);
  void unset_idle(uint32_t index);
  void ready(uint32_t index);
  void flush(uint32_t index);
  void close_flow(uint32_t index);
  void reconnect_due(Instant now);
  void connected(uint32_t index);
  void receive(uint32_t index);
  void consume(uint32_t index, const char* data, size_t size, Instant at);
  void take_reply(Flow& flow, Instant at);

  static constexpr size_t kReceiveBytes = 32 * 1024;
  static constexpr int kEventsPerPoll = 64;

  Endpoint endpoint_;
  std::string auth_;  // the AUTH command, or empty
  FlowEvents& events_;
  Fd epoll_;
  std::vector<Flow> flows_;
  std::vector<uint32_t> idle_;  // indexes of idle flows, in no order
  std::unique_ptr<char[]> buffer_;
  uint64_t outstanding_ = 0;
  uint32_t down_ = 0;  // flows in kDown that will be retried
  uint32_t gone_ = 0;  // flows in kDown for good
  Instant now_;
  std::string fatal_;        // set when the run cannot go on
  std::string last_notice_;  // an error the server sent without being asked, e.g. at its limit
};

}  // namespace rubato::load
