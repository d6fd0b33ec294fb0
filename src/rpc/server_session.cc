// SPDX-License-Identifier: Apache-2.0
#include "rpc/server_session.h"

#include <algorithm>
#include <limits>
#include <optional>
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

Frame ServerSession::find(std::string_view unread, Request& request, ServerRequest& of) {
  const Decoded found = decode(unread, Side::kClient, limits_.body_bytes);
  since_ = std::max(request.arrived, held_until_);
  if (found.state == Decoded::State::kIncomplete) return {FrameState::kIncomplete, found.length};
  of = ServerRequest();
  const bool malformed = found.state == Decoded::State::kMalformed;
  if (malformed) {
    fault(of, found.fault);
  } else {
    take(found.message, request, of);
  }
  request.credited = of.answer == ServerRequest::Answer::kRun;
  request.at_once = !request.credited;
  request.group = group_of(request.at_once);
  return {FrameState::kComplete, malformed ? unread.size() : found.length};
}

void ServerSession::take(const Message& message, Request& request, ServerRequest& of) {
  of.body = message.body;
  of.id = message.id;
  if (message.kind == Kind::kHello) return take_hello(message, of);
  if (state_ != State::kOpen) return fault(of, Fault::kNoSession);
  if (message.session != session_) return fault(of, Fault::kSession);
  switch (message.kind) {
    case Kind::kRequest: return take_request(message, of);
    case Kind::kRankedRequest: return take_ranked(message, request, of);
    case Kind::kProbe:
      of.load = admission_.probe(now());
      of.answer = ServerRequest::Answer::kLoad;
      return;
    case Kind::kDemand:
      of.credit = admission_.note_demand(admitted_, std::min(message.amount, kMaxDemand), now());
      of.answer = ServerRequest::Answer::kCredit;
      return;
    default:  // goodbye; decode() lets no other through
      admission_.close(admitted_);
      state_ = State::kOver;
  }
}

void ServerSession::take_hello(const Message& message, ServerRequest& of) {
  const uint32_t demand = std::min(message.amount, kMaxDemand);
  if (message.session == 0) return fault(of, Fault::kSession);
  advertised_levels_ = overload::kLevels;
  if (state_ == State::kNew) {
    of.credit = admission_.open(admitted_, demand, now());
    session_ = message.session;
    if (of.credit < 0) return fault(of, Fault::kSessions);
    state_ = State::kOpen;
  } else if (limits_.datagrams) {
    of.credit = admitted_.advertised;
  } else {
    return fault(of, Fault::kSession);
  }
  of.answer = ServerRequest::Answer::kWelcome;
  if (message.id == 0) return;
  of.owes_welcome = true;
  take_request(message, of);
}

void ServerSession::take_request(const Message& message, ServerRequest& of) {
  const overload::Arrival arrival = admission_.arrived(
      admitted_, of.queued, std::min(message.amount, kMaxDemand), since_, now());
  of.answer = arrival == overload::Arrival::kServe ? ServerRequest::Answer::kRun
                                                   : ServerRequest::Answer::kRefusal;
  of.reason = arrival == overload::Arrival::kRefuseUncredited ? Reason::kOverCredit
                                                            : Reason::kOverloaded;
}

void ServerSession::take_ranked(const Message& message, Request& request, ServerRequest& of) {
  const std::optional<Rank> rank = decode_rank(message.body);
  if (!rank) return fault(of, Fault::kFields);
  of.body = message.body.substr(kRankBytes);
  of.is_ranked = true;
  request.priority = request.client_priority = rank->priority;
  request.cohort = static_cast<uint8_t>(rank->cohort + 1);
  take_request(message, of);
}

void ServerSession::fault(ServerRequest& of, Fault fault) {
  if (fault != Fault::kSessions) admission_.note_fault();
  admission_.close(admitted_);
  state_ = State::kOver;
  of.answer = ServerRequest::Answer::kError;
  of.fault = fault;
}

void ServerSession::answer(Request& request, ServerRequest& of) {
  using Answer = ServerRequest::Answer;
  ReplyBuffer& to = *request.reply;
  request.close_after |= state_ == State::kOver;
  switch (of.answer) {
    case Answer::kRun:
      refused(request, of);
      return refuse(request, of, to, of.reason);
    case Answer::kRefusal: return refuse(request, of, to, of.reason);
    case Answer::kLoad: return answer_probe(of, to);
    case Answer::kWelcome: return send(to, Kind::kWelcome, on_wire(of.credit), 0, {});
    case Answer::kCredit: return send(to, Kind::kCredit, on_wire(of.credit), 0, {});
    case Answer::kError:
      return send(to, Kind::kError, static_cast<uint32_t>(of.fault), 0, to_string(of.fault));
    case Answer::kNothing: return;
  }
}

bool ServerSession::admits(ServerRequest& of) { return admission_.started(of.queued, now()); }

void ServerSession::refused(const Request& request, ServerRequest& of) {
  of.outcome = ServerRequest::Outcome::kRefusal;
  of.reason = request.refusal == Refusal::kFull ? Reason::kQueueFull : Reason::kOverloaded;
}

void ServerSession::complete(Request& request, ServerRequest& of, ReplyBuffer& to,
                             std::string_view body) {
  // No frame is sent behind the error that ended the session.
  if (state_ == State::kOver) return admission_.withdraw(of.queued);
  switch (of.outcome) {
    case ServerRequest::Outcome::kReply: return reply(request, of, to, body);
    case ServerRequest::Outcome::kFailed: return fail(request, of, to, of.fault);
    case ServerRequest::Outcome::kRefusal: return refuse(request, of, to, of.reason);
  }
}

namespace {
Nanos in_slices(const Request& request) {
  return request.preemptions > 0 ? request.attained : Nanos();
}
}  // namespace

// Requests for which the flow had no room until now have not waited for other sessions so far.
Instant ServerSession::note_end() {
  const Instant end = now();
  if (admitted_.pending >= static_cast<int64_t>(limits_.in_service)) held_until_ = end;
  return end;
}

void ServerSession::reply(Request& request, ServerRequest& of, ReplyBuffer& to,
                          std::string_view body) {
  if (begin_reply(request, of, to, body.size()) && !body.empty()) to.append(body);
}

bool ServerSession::begin_reply(Request& request, ServerRequest& of, ReplyBuffer& to,
                                size_t body_bytes) {
  if (body_bytes > most_reply_bytes()) {
    fail(request, of, to, Fault::kTooLarge);
    return false;
  }
  const Instant end = note_end();
  const int64_t credit = admission_.replied(admitted_, of.queued, in_slices(request), end);
  begin_answer(request, of, to, credit);
  char header[kHeaderBytes];
  encode_header(header, {Kind::kResponse, session_, on_wire(credit), of.id, {}}, body_bytes);
  to.append({header, sizeof header});
  return true;
}

// An error frame has no field for the credit. A client whose last known credit is zero would wait
// for ever, since no answer is on its way that could tell it more.
void ServerSession::fail(Request& request, ServerRequest& of, ReplyBuffer& to, Fault fault) {
  const Instant end = note_end();
  const bool had_none = admitted_.advertised == 0;
  const int64_t credit = admission_.replied(admitted_, of.queued, in_slices(request), end);
  begin_answer(request, of, to, credit);
  send(to, Kind::kError, static_cast<uint32_t>(fault), of.id, to_string(fault));
  if (had_none) send(to, Kind::kCredit, on_wire(credit), 0, {});
}

void ServerSession::refuse(const Request& request, ServerRequest& of, ReplyBuffer& to,
                           Reason reason) {
  const Instant end = note_end();
  const RefusalBody why{reason, of.of_class, micros_of(admission_.retry_after())};
  const int64_t credit = admission_.refused(admitted_, of.queued, reason, end);
  begin_answer(request, of, to, credit);
  char body[kRefusalBytes];
  encode_refusal(body, why);
  send(to, Kind::kRefusal, on_wire(credit), of.id, {body, sizeof body});
}

void ServerSession::on_push(ReplyBuffer& to) {
  const int64_t credit = admission_.take_offer(admitted_, now());
  if (credit >= 0 && state_ == State::kOpen) send(to, Kind::kCredit, on_wire(credit), 0, {});
}

// What its client is to know before the answer.
void ServerSession::begin_answer(const Request& request, ServerRequest& of, ReplyBuffer& to,
                                 int64_t credit) {
  if (std::exchange(of.owes_welcome, false)) send(to, Kind::kWelcome, on_wire(credit), 0, {});
  const uint16_t levels = request.admitted_levels;
  if (!of.is_ranked || levels == 0) return;
  const bool may_be_lost = limits_.datagrams && of.outcome == ServerRequest::Outcome::kRefusal;
  if (levels == advertised_levels_ && !may_be_lost) return;
  advertised_levels_ = levels;
  send(to, Kind::kLevel, levels, 0, {});
}

void ServerSession::answer_probe(const ServerRequest& of, ReplyBuffer& to) {
  char body[kLoadBytes];
  encode_load(body, {micros_of(of.load.latency)});
  send(to, Kind::kLoad, of.load.in_flight, of.id, {body, sizeof body});
}

void ServerSession::send(ReplyBuffer& to, Kind kind, uint32_t amount, uint64_t id,
                         std::string_view body) {
  encode(to, {kind, session_, amount, id, body});
}

}  // namespace rubato::rpc
