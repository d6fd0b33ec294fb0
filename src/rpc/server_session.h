// SPDX-License-Identifier: Apache-2.0
//
// ServerSession: the protocol of one session on the server's side; ServerRequest: the protocol of
// one of its requests. The host's Session (see datapath/request.h) is made of these two.
//
// Every frame of the client leads to one of three results: a request to run, an answer that is
// known at once, or an error, after which the session is over and no byte more is read.
//
// The session belongs to the flow's owner of the moment, which calls find() in its frame(),
// answer() in its answer(), on_push() in its on_push() and, where several requests are in service
// at once, complete() in its complete(). A ServerRequest belongs to the worker that has the
// request: the worker calls admits(), and records the end of the request by refused() or in
// `outcome`; complete() then sends it. A host that keeps the order owns the flow while its request
// runs, and may call reply(), begin_reply() and fail() itself.
#pragma once

#include <cstdint>
#include <string_view>

#include "datapath/request.h"
#include "overload/load_window.h"
#include "rpc/admission.h"

namespace rubato::rpc {

// The requests of a session in service at once, where their order is not kept: one per credit of
// the highest credit, and one that came without.
inline constexpr uint32_t kMaxInService = 64;

struct SessionLimits {
  size_t body_bytes = kMaxBodyBytes;  // of a request
  bool datagrams = false;  // hello may come again, and a reply must fit in one datagram
  uint32_t in_service = 1;  // requests at once
};

struct ServerRequest {
  enum class Answer : uint8_t { kRun, kNothing, kWelcome, kCredit, kLoad, kRefusal, kError };
  // The answer that complete() sends.
  enum class Outcome : uint8_t { kReply, kFailed, kRefusal };

  std::string_view body;  // of the frame that find() took; valid as long as the bytes given to it
  uint64_t id = 0;
  Answer answer = Answer::kNothing;
  Outcome outcome = Outcome::kReply;
  bool is_ranked = false;     // its client wants to hear of the levels that are admitted
  bool owes_welcome = false;  // it came with the hello: the welcome goes before its answer
  uint8_t of_class = 0;
  Reason reason = Reason::kOverloaded;
  Fault fault = Fault::kNone;  // of an error, or of the failed request
  int64_t credit = 0;          // of the answer
  overload::ServerLoad load;   // the same
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

  // Takes the first frame of `unread`. If the frame is complete and not `request.at_once`, of.body
  // is to be run. If of.refuses(), of.body belongs to a request that is not to be run.
  Frame find(std::string_view unread, Request& request, ServerRequest& of);

  // Answers a request that find() marked at_once; or refuses a request that was to be run, for the
  // reason request.refusal.
  void answer(Request& request, ServerRequest& of);

  // Implements Session::admits.
  bool admits(ServerRequest& of);
  // The runtime refuses the request.
  static void refused(const Request& request, ServerRequest& of);
  // Sends the outcome; the body of a reply is `body`.
  void complete(Request& request, ServerRequest& of, ReplyBuffer& to, std::string_view body);

  void reply(Request& request, ServerRequest& of, ReplyBuffer& to, std::string_view body);
  // As reply(), for a body of `body_bytes` that the caller appends afterwards, perhaps in pieces.
  // False: the body is too large, and an error was sent instead.
  bool begin_reply(Request& request, ServerRequest& of, ReplyBuffer& to, size_t body_bytes);
  void fail(Request& request, ServerRequest& of, ReplyBuffer& to, Fault fault = Fault::kFailed);
  // The request will not be answered, since its session ends.
  void withdraw(ServerRequest& of) { admission_.withdraw(of.queued); }

  // Implements Session::on_push.
  void on_push(ReplyBuffer& to);

  // Sets the class of the request, for the target delay and for a refusal.
  void set_class(ServerRequest& of, uint8_t of_class) {
    of.of_class = of_class;
    admission_.classify(of.queued, of_class == kLongClass);
  }
  // Takes effect from the next frame on.
  void set_body_limit(size_t bytes) { limits_.body_bytes = bytes; }
  // The longest body of a reply.
  size_t most_reply_bytes() const {
    return limits_.datagrams ? kMaxDatagramBytes - kHeaderBytes : kMaxBodyBytes;
  }
  const SessionLimits& limits() const { return limits_; }

 private:
  enum class State : uint8_t { kNew, kOpen, kOver };

  void take(const Message& message, Request& request, ServerRequest& of);
  void take_hello(const Message& message, ServerRequest& of);
  void take_request(const Message& message, ServerRequest& of);
  void take_ranked(const Message& message, Request& request, ServerRequest& of);
  void answer_probe(const ServerRequest& of, ReplyBuffer& to);
  void fault(ServerRequest& of, Fault fault);
  void refuse(const Request& request, ServerRequest& of, ReplyBuffer& to, Reason reason);
  Instant note_end();
  void send(ReplyBuffer& to, Kind kind, uint32_t amount, uint64_t id, std::string_view body);
  void begin_answer(const Request& request, ServerRequest& of, ReplyBuffer& to, int64_t credit);

  AdmissionController& admission_;
  AdmittedSession admitted_;
  SessionLimits limits_;
  State state_ = State::kNew;
  uint32_t session_ = 0;
  uint16_t advertised_levels_ = overload::kLevels;  // as its client knows them
  // The wait of a request starts at its arrival, but not before the end of the requests ahead of it
  // in its own pipeline.
  Instant since_;
  Instant held_until_;
};

}  // namespace rubato::rpc
