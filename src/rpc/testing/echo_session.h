// SPDX-License-Identifier: Apache-2.0
//
// An RPC server in a test's hands: a Session that runs nothing by itself, and what its frames are.
// One thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "mechanism/clock/clock.h"
#include "rpc/server_session.h"

namespace rubato::rpc::testing {

inline std::string framed(const Message& message) {
  std::string bytes;
  encode(bytes, message);
  return bytes;
}

// A client's session, and the request that it has in flight at most.
class Peer {
 public:
  explicit Peer(AdmissionController& admission, const SessionLimits& limits = {})
      : session(admission, 1, limits) {
    request.reply = &buffer_;
  }
  ~Peer() { session.withdraw(server); }

  // The session finds what `bytes` begin with. True = it is to be run.
  bool send(std::string_view bytes) {
    request.at_once = request.close_after = false;
    request.arrived = now();
    last = session.find(bytes, request, server);
    return last.state == FrameState::kComplete && !request.at_once;
  }
  bool send(const Message& message) { return send(bytes_ = framed(message)); }

  // The frames that the server has sent since the last call.
  struct Sent {
    Message message;
    std::string body;
  };
  std::vector<Sent> said() {
    std::vector<Sent> all;
    while (!buffer_.empty()) {
      const Decoded found = decode(buffer_.unsent(), Side::kServer);
      if (found.state != Decoded::State::kComplete) break;
      all.push_back({found.message, std::string(found.message.body)});
      all.back().message.body = {};
      buffer_.consume(found.length);
    }
    return all;
  }
  // Answers what is known at once, and returns it.
  std::vector<Sent> answer() {
    session.answer(request, server);
    return said();
  }
  std::vector<Sent> on_push() {
    session.on_push(buffer_);
    return said();
  }
  ReplyBuffer& buffer() { return buffer_; }

  // As the worker that runs the request; false = it was refused.
  bool started() {
    if (session.admits(server)) return true;
    request.refusal = Refusal::kDelay;
    session.answer(request, server);
    return false;
  }
  void reply(std::string_view body) { session.reply(request, server, buffer_, body); }
  bool begin_reply(size_t bytes) { return session.begin_reply(request, server, buffer_, bytes); }
  void fail() { session.fail(request, server, buffer_); }

  ServerSession session;
  ServerRequest server;
  Request request;
  Frame last;

 private:
  ReplyBuffer buffer_;
  std::string bytes_;
};

}  // namespace rubato::rpc::testing
