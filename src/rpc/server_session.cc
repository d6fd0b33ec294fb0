// SPDX-License-Identifier: Apache-2.0
#include "rpc/server_session.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "mechanism/clock/clock.h"

namespace rubato::rpc {
namespace {

uint32_t on_wire(int64_t credit) { return static_cast<uint32_t>(std::max<int64_t>(credit, 0)); }

uint32_t micros_of(Nanos time) {
  constexpr int64_t kMost = std::numeric_limits<uint32_t>::max();
  return static_cast<uint32_t>(std::clamp<int64_t>((time.count() + 999) / 1000, 0, kMost));
}

}  // namespace

Frame ServerSession::find(std::string_view unread, Request& request) {
  const Decoded found = decode(unread, Side::kClient, limits_.body_bytes);
  since_ = std::max(request.arrived, last_end_);
  if (found.state == Decoded::State::kIncomplete) return {FrameState::kIncomplete, found.length};
  const bool malformed = found.state == Decoded::State::kMalformed;
  if (malformed) {
    message_ = {};
    fault(found.fault);
  } else {
    take(found.message);
  }
  request.at_once = request.control = answer_ != Answer::kRun;
  return {FrameState::kComplete, malformed ? unread.size() : found.length};
}

void ServerSession::take(const Message& message) {
  message_ = message;
  if (message.kind == Kind::kHello) return take_hello(message);
  if (state_ != State::kOpen) return fault(Fault::kNoSession);
  if (message.session != session_) return fault(Fault::kSession);
  switch (message.kind) {
    case Kind::kRequest: return take_request(message);
    case Kind::kDemand:
      credit_ = admission_.demanded(admitted_, std::min(message.amount, kMaxDemand), now());
      answer_ = Answer::kCredit;
      return;
    default:  // goodbye; decode() lets no other through
      admission_.close(admitted_);
      state_ = State::kOver;
      answer_ = Answer::kNothing;
  }
}

void ServerSession::take_hello(const Message& message) {
  const uint32_t demand = std::min(message.amount, kMaxDemand);
  if (message.session == 0) return fault(Fault::kSession);
  if (state_ == State::kNew) {
    credit_ = admission_.open(admitted_, demand, now());
    session_ = message.session;
    if (credit_ < 0) return fault(Fault::kSessions);
    state_ = State::kOpen;
  } else if (limits_.datagrams) {
    credit_ = admitted_.advertised;
  } else {
    return fault(Fault::kSession);
  }
  answer_ = Answer::kWelcome;
  if (message.id == 0) return;
  owes_welcome_ = true;
  take_request(message);
}

void ServerSession::take_request(const Message& message) {
  const overload::Arrival arrival =
      admission_.arrived(admitted_, waiting_, std::min(message.amount, kMaxDemand), since_, now());
  answer_ = arrival == overload::Arrival::kServe ? Answer::kRun : Answer::kReject;
  reason_ = arrival == overload::Arrival::kDropUncredited ? Reason::kOverCredit
                                                          : Reason::kOverloaded;
}

void ServerSession::fault(Fault fault) {
  if (fault != Fault::kSessions) admission_.note_fault();
  admission_.close(admitted_);
  state_ = State::kOver;
  answer_ = Answer::kError;
  fault_ = fault;
}

void ServerSession::answer(Request& request) {
  ReplyBuffer& to = *request.reply;
  request.close_after |= state_ == State::kOver;
  switch (answer_) {
    case Answer::kRun:
      return reject(request, request.refusal == Refusal::kFull ? Reason::kQueueFull
                                                               : Reason::kOverloaded);
    case Answer::kReject: return reject(request, reason_);
    case Answer::kWelcome: return send(to, Kind::kWelcome, on_wire(credit_), 0, {});
    case Answer::kCredit: return send(to, Kind::kCredit, on_wire(credit_), 0, {});
    case Answer::kError:
      return send(to, Kind::kError, static_cast<uint32_t>(fault_), 0, to_string(fault_));
    case Answer::kNothing: return;
  }
}

bool ServerSession::started(Request& request) {
  if (admission_.started(waiting_, now())) return true;
  reject(request, Reason::kOverloaded);
  return false;
}

namespace {
Nanos in_slices(const Request& request) {
  return request.preemptions > 0 ? request.attained : Nanos();
}
}  // namespace

void ServerSession::reply(Request& request, std::string_view body) {
  if (begin_reply(request, body.size()) && !body.empty()) request.reply->append(body);
}

bool ServerSession::begin_reply(Request& request, size_t body_bytes) {
  const size_t most = limits_.datagrams ? kMaxDatagramBytes - kHeaderBytes : kMaxBodyBytes;
  if (body_bytes > most) {
    fail(request, Fault::kTooLarge);
    return false;
  }
  last_end_ = now();
  const int64_t credit = admission_.replied(admitted_, waiting_, in_slices(request), last_end_);
  welcome(*request.reply, credit);
  char header[kHeaderBytes];
  encode_header(header, {Kind::kResponse, session_, on_wire(credit), message_.id, {}}, body_bytes);
  request.reply->append({header, sizeof header});
  return true;
}

// An error has no room for the credit. A client that was told that it has none would wait for ever:
// it has no answer to come that could say otherwise.
void ServerSession::fail(Request& request, Fault fault) {
  last_end_ = now();
  const bool had_none = admitted_.advertised == 0;
  const int64_t credit = admission_.replied(admitted_, waiting_, in_slices(request), last_end_);
  welcome(*request.reply, credit);
  send(*request.reply, Kind::kError, static_cast<uint32_t>(fault), message_.id, to_string(fault));
  if (had_none) send(*request.reply, Kind::kCredit, on_wire(credit), 0, {});
}

void ServerSession::reject(Request& request, Reason reason) {
  last_end_ = now();
  const Reject why{reason, class_, micros_of(admission_.retry_after())};
  const int64_t credit = admission_.dropped(admitted_, waiting_, reason, last_end_);
  welcome(*request.reply, credit);
  char body[kRejectBytes];
  encode_reject(body, why);
  send(*request.reply, Kind::kReject, on_wire(credit), message_.id, {body, sizeof body});
}

void ServerSession::unasked(ReplyBuffer& to) {
  const int64_t credit = admission_.take_offer(admitted_, now());
  if (credit >= 0 && state_ == State::kOpen) send(to, Kind::kCredit, on_wire(credit), 0, {});
}

void ServerSession::welcome(ReplyBuffer& to, int64_t credit) {
  if (!std::exchange(owes_welcome_, false)) return;
  send(to, Kind::kWelcome, on_wire(credit), 0, {});
}

void ServerSession::send(ReplyBuffer& to, Kind kind, uint32_t amount, uint64_t id,
                         std::string_view body) {
  encode(to, {kind, session_, amount, id, body});
}

}  // namespace rubato::rpc
