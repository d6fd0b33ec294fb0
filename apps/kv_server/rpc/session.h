// SPDX-License-Identifier: Apache-2.0
//
// RpcKvSession: a connection of the port that speaks Rubato RPC (docs/RPC.md): the body of a
// request is one RESP command, that of its response the reply to it, empty where RESP has none. A
// KvSession in all else: commands, errors, AUTH and what CLIENT LIST shows are the same.
//
// Commands of a session keep their order, for it has a state (AUTH, HELLO, MULTI) and each sees
// the effects of the one before it. Replies gather in a buffer of their own, because the header in
// front of them holds their length. Belongs to the flow's owner of the moment; borrows the
// admission controller.
#pragma once

#include "kv_server/server/session.h"
#include "rpc/server_session.h"

namespace rubato::kv {

class RpcKvSession final : public KvSession {
 public:
  RpcKvSession(Server& server, const Peer& peer, rpc::AdmissionController& admission);
  ~RpcKvSession() override { rpc_.withdraw(request_); }

  Frame frame(std::string_view unread, Request& request) override;
  void refuse(Request& request) override;
  bool admits(Request& request) override;
  void answer(Request& request) override;
  void on_push(ReplyBuffer& reply) override { rpc_.on_push(reply); }

  // For the worker that runs the request. False: it was answered, there is nothing to run.
  bool begin(Request& request);
  // It has run: sends what it has replied.
  void end(Request& request);

  uint64_t max_reply_bytes() const override;

 private:
  void note_refused(const Request& request);

  rpc::ServerSession rpc_;
  rpc::ServerRequest request_;  // the one in service
  ReplyBuffer body_;
  ReplyBuffer* replies_to_ = nullptr;  // the flow's, while a request runs
};

}  // namespace rubato::kv
