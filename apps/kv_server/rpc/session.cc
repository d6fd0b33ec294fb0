// SPDX-License-Identifier: Apache-2.0
#include "kv_server/rpc/session.h"

#include <algorithm>

#include "datapath/datapath.h"
#include "kv_server/server/protected_mode.h"
#include "kv_server/server/server.h"
#include "runtime/app.h"

namespace rubato::kv {
namespace {

// A connection keeps as much room for the body of its next reply.
constexpr size_t kBodyKeptBytes = 4096;

// A reply reserves more than it writes. The size of the whole is looked at when it is known.
constexpr size_t kReservedBytes = 64;

// A client that has not authenticated may send no more than RESP allows it: ten arguments of
// 16 KiB, and their headers.
constexpr size_t kUnauthenticatedBytes = 10 * 16384 + 512;

}  // namespace

RpcKvSession::RpcKvSession(Server& server, const Peer& peer, rpc::AdmissionController& admission,
                           bool datagrams)
    : KvSession(server, peer, Speaks::kRpc),
      rpc_(admission, peer.flow, {.datagrams = datagrams}, peer.address),
      body_(new_body()) {}

ReplyBuffer RpcKvSession::new_body() const {
  return ReplyBuffer(RpcKvSession::max_reply_bytes() + kReservedBytes, server().options().memory);
}

// The size that fits in a frame, over UDP in a datagram.
uint64_t RpcKvSession::max_reply_bytes() const {
  return std::min<uint64_t>(KvSession::max_reply_bytes(), rpc_.most_reply_bytes());
}

// A request refused on arrival is parsed all the same: it counts as a refusal of its command.
Frame RpcKvSession::frame(std::string_view unread, Request& request) {
  rpc_.set_body_limit(authenticated() ? rpc::kMaxBodyBytes : kUnauthenticatedBytes);
  const Frame found = rpc_.find(unread, request, request_);
  if (found.state == FrameState::kIncomplete) return found;
  if (request.at_once && !request_.refuses()) return found;
  const bool refused = request.at_once;
  take_whole(request_.body, request);
  if (refused) request.group = kControlGroup;
  const bool fast = (command_table()[request.type].flags & kFast) != 0;
  rpc_.set_class(request_, fast ? rpc::kShortClass : 0);
  return found;
}

void RpcKvSession::note_refused(const Request& request) {
  note_refused_command(request.type);
  server().calls().refuse_unstarted(request.type);
  server().errors().count_refusal();
  if (request.job_class == JobClass::kLong) rpc_.set_class(request_, rpc::kLongClass);
}

void RpcKvSession::refuse(Request& request) {
  note_refused(request);
  rpc_.answer(request, request_);
}

void RpcKvSession::answer(Request& request) {
  if (request_.refuses()) note_refused(request);
  rpc_.answer(request, request_);
}

bool RpcKvSession::admits(Request& request) {
  if (request.job_class == JobClass::kLong) rpc_.set_class(request_, rpc::kLongClass);
  return rpc_.admits(request_);
}

bool RpcKvSession::begin(Request& request) {
  if (!request.at_once) {
    replies_to_ = request.reply;
    request.reply = &body_;
    return true;
  }
  answer(request);
  // This is no call of the command, so its times and the slow log leave it out.
  request.type = kUnknownCommand;
  forget_request();
  return false;
}

// A long reply leaves in pieces, as those over RESP do, so that no step copies all of it.
void RpcKvSession::end(Request& request) {
  ReplyBuffer& to = *replies_to_;
  request.reply = &to;
  if (request.cancelled || body_.overflowed()) {
    const rpc::Fault fault = request.cancelled ? rpc::Fault::kFailed : rpc::Fault::kTooLarge;
    rpc_.fail(request, request_, to, fault);
    body_ = new_body();
    return;
  }
  if (!rpc_.begin_reply(request, request_, to, body_.size())) body_.consume(body_.size());
  while (!body_.empty()) {
    const std::string_view piece = body_.unsent().substr(0, kReplyPieceBytes);
    to.append(piece);
    body_.consume(piece.size());
    if (body_.empty()) break;
    if (request.datapath != nullptr) request.datapath->flush_some(request, kReplyPieceBytes);
    checkpoint();
  }
  body_.shrink(kBodyKeptBytes);
}

std::string RpcDatagramPort::refusal_for(const Peer& peer) {
  if (!server_.config().is_protected() || is_loopback(peer.address)) return {};
  return protected_mode_answer(Speaks::kRpc);
}

}  // namespace rubato::kv
