// SPDX-License-Identifier: Apache-2.0
//
// ClientSession: the client's side of one session without the wire. It queues requests while it has
// no credit, gives up requests that wait for too long, keeps no more requests unanswered than its
// credit, and reports once how each request ended. The caller passes the bytes and the times; one
// owner at a time. docs/RPC.md has the rules, clients/python the same in Python.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "overload/heard_levels.h"
#include "overload/latency_by_load.h"
#include "rpc/frames.h"

namespace rubato::rpc {

struct ClientOptions {
  uint32_t queue = 16;             // requests waiting here for credit, at least 1; the paper's
  bool discard_oldest = true;         // for a new one when the queue is full; else the new one goes
  Nanos expire = Nanos::millis(10);     // of a request in the queue; zero = never
  Nanos answer_within = Nanos::seconds(1);  // of one that was sent; zero = for ever
  size_t reply_bytes = kMaxBodyBytes;   // a larger one breaks the session
  uint32_t session = 1;            // number; over UDP unique among the sessions of this address
  bool datagrams = false;          // UDP: a token, and frames may get lost: some are repeated
  Nanos repeat = Nanos::millis(20);
};

enum class Ending : uint8_t {
  kReply,
  kRefused,  // by the server, see Reject
  kFailed,    // the application failed it, or it was never sent: too long for a datagram
  kExpired,   // never sent: waited for credit for too long
  kOverflowed,   // never sent: the queue was full
  kWithheld,  // never sent: less urgent than what the server admits
  kLost,      // sent, and no answer came: the connection went, or the time was up
};

inline constexpr size_t kEndings = 7;

struct Ended {
  uint64_t tag = 0;
  Ending ending = Ending::kReply;
  std::string_view body;  // of a reply, or why it failed; valid during the call
  RefusalBody refuse;
};

class ClientEvents {
 public:
  virtual ~ClientEvents() = default;
  // Must not call back into the session.
  virtual void on_end(const Ended& request) = 0;
  // A probe was answered. Likewise.
  virtual void on_load(const overload::ServerLoad&) {}
};

class ClientSession {
 public:
  ClientSession(const ClientOptions& options, ClientEvents& events)
      : options_(options), events_(events) {}

  // `tag` comes back in on_end. The session keeps a copy of the body. A request with a rank is not
  // sent while the server refuses all of its level (overload/heard_levels.h).
  void submit(uint64_t tag, std::string_view body, Instant now, std::optional<Rank> rank = {});
  // Appends a probe and returns true, or false if the session is not open. The answer comes in
  // on_load, if it comes.
  bool probe(std::string& out);

  // Appends the next frame to be sent, and returns true, or false if there is none now. Over UDP
  // each frame is one datagram.
  bool next_frame(std::string& out, Instant now);
  // Takes received bytes, cut anywhere (over UDP: one datagram). Fails when the session is over,
  // because the server ended it or the bytes are no answer; the caller must then call lost().
  Status receive(std::string_view bytes, Instant now);
  // Ends the requests whose time is up at `now`.
  void poll(Instant now);
  // The connection is gone, or is given up: sent requests are lost, queued requests stay, and the
  // next frame opens a new session.
  void lost();
  // As lost(), and the queued requests are lost too.
  void abandon();
  // Appends a goodbye.
  void leave(std::string& out);

  size_t outstanding() const { return sent_.size(); }
  size_t queued() const { return queue_.size(); }
  uint32_t credit() const { return credit_; }
  // True once the server has welcomed the session; before that the credit means nothing.
  bool open() const { return state_ == State::kOpen; }
  // How many of the most urgent levels the server admits, as far as it has said.
  uint32_t levels() const { return heard_.levels(); }

 private:
  enum class State : uint8_t { kNew, kGreeted, kOpen };
  struct Queued {
    uint64_t tag = 0;
    Instant since;
    std::string body;
    std::optional<Rank> rank;
  };
  struct Sent {
    uint64_t id = 0;
    uint64_t tag = 0;
    Instant at;
  };

  bool send_first(std::string& out, Instant now);
  void take_token(uint64_t token);
  // How many requests may be unanswered.
  size_t allowed() const { return spent_first_ ? credit_ : std::max(credit_, 1u); }
  void send_request(Kind kind, std::string& out, Instant now);
  bool send_demand(std::string& out, Instant now);
  void send(Kind kind, std::string& out, uint64_t id, std::string_view body);
  void put(std::string& out, const Message& message) const;
  Status take(const Message& message, Instant now);
  void end_sent(const Message& message, Ending ending);
  void expire(Instant now);
  void drop_withheld(Instant now);

  const ClientOptions options_;
  ClientEvents& events_;
  State state_ = State::kNew;
  uint32_t credit_ = 0;
  uint32_t advertised_demand_ = 0;  // as the server knows it
  bool spent_first_ = false;  // the session's first request, which needs no credit
  uint64_t next_id_ = 1;
  uint64_t token_ = 0;        // over UDP; 0 = the server has not given one
  Instant asked_at_;          // the last hello or demand
  overload::HeardLevels heard_;
  uint64_t next_probe_ = 1;
  std::deque<Queued> queue_;
  std::vector<Sent> sent_;    // in the order of sending; as many as the credit at most
  std::string unread_;        // the beginning of a frame
};

}  // namespace rubato::rpc
