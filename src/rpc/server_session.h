// SPDX-License-Identifier: Apache-2.0
//
// ServerSession: the protocol of one session on the server's side. What the host's Session (see
// datapath/request.h) is made of: find() in its frame(), answer() in its answer() and refuse(),
// unasked() in its unasked(); and while a request runs started(), then reply(), reject() or fail().
//
// Whatever the client sends, one of three things comes of it: a request to run, an answer that is
// known at once, or an error, after which the session is over and nothing more is read. Belongs to
// the flow's owner of the moment; the admission controller is shared.
#pragma once

#include <cstdint>
#include <string_view>

#include "datapath/request.h"
#include "rpc/admission.h"

namespace rubato::rpc {

struct SessionLimits {
  size_t body_bytes = kMaxBodyBytes;  // of a request
  bool datagrams = false;  // hello may come again, and a reply must fit in one
};

class ServerSession {
 public:
  // `peer`: see AdmittedSession.
  ServerSession(AdmissionController& admission, uint64_t flow, const SessionLimits& limits = {},
                std::string_view peer = {})
      : admission_(admission), admitted_(flow, peer), limits_(limits) {}
  ~ServerSession() {
    admission_.withdraw(waiting_);
    admission_.close(admitted_);
  }

  // The first frame of `unread`, taken in. If it is complete and not `request.at_once`, body() is
  // to be run. If it rejects(), body() is that of the request which is not to be.
  Frame find(std::string_view unread, Request& request);
  std::string_view body() const { return message_.body; }
  bool rejects() const { return answer_ == Answer::kReject; }

  // What find() marked at_once; or, for a request to be run, that it will not be, for
  // request.refusal.
  void answer(Request& request);

  // The request is given to a worker. False: it was answered, for it has waited too long.
  bool started(Request& request);
  // It has run.
  void reply(Request& request, std::string_view body);
  // The same for a body that is appended afterwards, perhaps sent in pieces: so many bytes of it
  // are due. False: it is too large, and that was the answer.
  bool begin_reply(Request& request, size_t body_bytes);
  void fail(Request& request, Fault fault = Fault::kFailed);

  // What Session::unasked is for.
  void unasked(ReplyBuffer& to);

  // The class of the request that find() took in: for its delay, and if it is rejected.
  void set_class(uint8_t of_class) {
    class_ = of_class;
    admission_.classify(waiting_, of_class == kLongClass);
  }
  // From the next frame on.
  void set_body_limit(size_t bytes) { limits_.body_bytes = bytes; }

 private:
  enum class State : uint8_t { kNew, kOpen, kOver };
  enum class Answer : uint8_t { kRun, kNothing, kWelcome, kCredit, kReject, kError };

  void take(const Message& message);
  void take_hello(const Message& message);
  void take_request(const Message& message);
  void fault(Fault fault);
  void reject(Request& request, Reason reason);
  void send(ReplyBuffer& to, Kind kind, uint32_t amount, uint64_t id, std::string_view body);
  void welcome(ReplyBuffer& to, int64_t credit);

  AdmissionController& admission_;
  AdmittedSession admitted_;
  SessionLimits limits_;
  State state_ = State::kNew;
  Answer answer_ = Answer::kNothing;
  bool owes_welcome_ = false;  // hello came with a request: its answer comes second
  uint8_t class_ = 0;
  Reason reason_ = Reason::kOverloaded;
  Fault fault_ = Fault::kNone;
  uint32_t session_ = 0;
  int64_t credit_ = 0;  // to answer with
  Message message_;     // the request in flight; its body as long as that
  QueuedRequest waiting_;
  // A request waits since it arrived, but not for the one before it in its own pipeline.
  Instant since_;
  Instant last_end_;
};

}  // namespace rubato::rpc
