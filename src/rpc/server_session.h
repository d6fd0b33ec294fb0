// SPDX-License-Identifier: Apache-2.0
//
// ServerSession: the protocol of one session on the server's side, and ServerRequest: that of one
// of its requests. What the host's Session (see datapath/request.h) is made of.
//
// Whatever the client sends, one of three things comes of it: a request to run, an answer that is
// known at once, or an error, after which the session is over and nothing more is read.
//
// The session belongs to the flow's owner of the moment, which calls find() in its frame(),
// answer() in its answer(), on_push() in its on_push() and, where several requests are in service
// at once, complete() in its complete(). A ServerRequest belongs to the worker that has the
// request: it calls started(), and tells the fate of the request by refused() or by `outcome`;
// complete() then sends it. A host that keeps the order has the flow while its request runs, and
// may call reply(), begin_reply() and fail() itself.
#pragma once

#include <cstdint>
#include <string_view>

#include "datapath/request.h"
#include "rpc/admission.h"

namespace rubato::rpc {

// Requests of a session in service at once, where their order is not kept: those of the highest
// credit, and one that came without.
inline constexpr uint32_t kMaxInService = 64;

struct SessionLimits {
  size_t body_bytes = kMaxBodyBytes;  // of a request
  bool datagrams = false;  // hello may come again, and a reply must fit in one
  uint32_t in_service = 1;  // requests at once
};

struct ServerRequest {
  enum class Answer : uint8_t { kRun, kNothing, kWelcome, kCredit, kRefusal, kError };
  // What is to be sent when it is complete.
  enum class Outcome : uint8_t { kReply, kFailed, kRefusal };

  std::string_view body;  // of what find() took in: as long as the bytes that it was given
  uint64_t id = 0;
  Answer answer = Answer::kNothing;
  Outcome outcome = Outcome::kReply;
  bool owes_welcome = false;  // hello came with it: its answer comes second
  uint8_t of_class = 0;
  Reason reason = Reason::kOverloaded;
  Fault fault = Fault::kNone;  // of an error, or why it failed
  int64_t credit = 0;          // to answer with
  QueuedRequest queued;

  bool refuses() const { return answer == Answer::kRefusal; }
};

class ServerSession {
 public:
  // `peer`: see AdmittedSession.
  ServerSession(AdmissionController& admission, uint64_t flow, const SessionLimits& limits = {},
                std::string_view peer = {})
      : admission_(admission), admitted_(flow, peer), limits_(limits) {}
  ~ServerSession() { admission_.close(admitted_); }
  ServerSession(const ServerSession&) = delete;
  ServerSession& operator=(const ServerSession&) = delete;

  // The first frame of `unread`, taken in. If it is complete and not `request.at_once`, of.body is
  // to be run. If it refuses(), the body is that of the request which is not to be.
  Frame find(std::string_view unread, Request& request, ServerRequest& of);

  // What find() marked at_once; or, for a request to be run, that it will not be, for
  // request.refusal.
  void answer(Request& request, ServerRequest& of);

  // What Session::admits is for.
  bool admits(ServerRequest& of);
  // The runtime does not take it.
  static void refused(const Request& request, ServerRequest& of);
  // The outcome is sent; of a reply, `body`.
  void complete(Request& request, ServerRequest& of, ReplyBuffer& to, std::string_view body);

  void reply(Request& request, ServerRequest& of, ReplyBuffer& to, std::string_view body);
  // The same for a body that is appended afterwards, perhaps sent in pieces: so many bytes of it
  // are due. False: it is too large, and that was the answer.
  bool begin_reply(Request& request, ServerRequest& of, ReplyBuffer& to, size_t body_bytes);
  void fail(Request& request, ServerRequest& of, ReplyBuffer& to, Fault fault = Fault::kFailed);
  // It will not be answered: its session ends.
  void withdraw(ServerRequest& of) { admission_.withdraw(of.queued); }

  // What Session::on_push is for.
  void on_push(ReplyBuffer& to);

  // The class of the request: for its delay, and if it is refused.
  void set_class(ServerRequest& of, uint8_t of_class) {
    of.of_class = of_class;
    admission_.classify(of.queued, of_class == kLongClass);
  }
  // From the next frame on.
  void set_body_limit(size_t bytes) { limits_.body_bytes = bytes; }
  const SessionLimits& limits() const { return limits_; }

 private:
  enum class State : uint8_t { kNew, kOpen, kOver };

  void take(const Message& message, ServerRequest& of);
  void take_hello(const Message& message, ServerRequest& of);
  void take_request(const Message& message, ServerRequest& of);
  void fault(ServerRequest& of, Fault fault);
  void refuse(ServerRequest& of, ReplyBuffer& to, Reason reason);
  Instant note_end();
  void send(ReplyBuffer& to, Kind kind, uint32_t amount, uint64_t id, std::string_view body);
  void welcome(ServerRequest& of, ReplyBuffer& to, int64_t credit);

  AdmissionController& admission_;
  AdmittedSession admitted_;
  SessionLimits limits_;
  State state_ = State::kNew;
  uint32_t session_ = 0;
  // A request waits since it arrived, but not for those before it in its own pipeline.
  Instant since_;
  Instant held_until_;
};

}  // namespace rubato::rpc
