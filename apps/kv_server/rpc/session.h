// SPDX-License-Identifier: Apache-2.0
//
// RpcKvSession: a connection of the port that speaks Rubato RPC (docs/RPC.md): the body of a
// request is one RESP command, and the body of the response is the reply, empty where RESP has
// none. Otherwise it is a KvSession: commands, errors, AUTH and the line of CLIENT LIST are the
// same.
//
// Commands of a session keep their order, since the session has a state (AUTH, HELLO, MULTI) and
// each command sees the effects of the one before it. Replies gather in a buffer of their own,
// because the header in front of them holds their length. Belongs to the flow's owner of the
// moment; borrows the admission controller.
#pragma once

#include <memory>
#include <string>

#include "kv_server/server/session.h"
#include "rpc/server_session.h"

namespace rubato::kv {

class RpcKvSession final : public KvSession {
 public:
  // `datagrams`: over UDP, where a reply has to fit in one.
  RpcKvSession(Server& server, const Peer& peer, rpc::AdmissionController& admission,
               bool datagrams = false);
  ~RpcKvSession() override { rpc_.withdraw(request_); }

  Frame frame(std::string_view unread, Request& request) override;
  void refuse(Request& request) override;
  bool admits(Request& request) override;
  void answer(Request& request) override;
  void on_push(ReplyBuffer& reply) override { rpc_.on_push(reply); }

  // For the worker that runs the request. False: the request was answered and need not run.
  bool begin(Request& request);
  // The request has run: sends its reply.
  void end(Request& request);

  uint64_t max_reply_bytes() const override;

 private:
  void note_refused(const Request& request);
  ReplyBuffer new_body() const;

  rpc::ServerSession rpc_;
  rpc::ServerRequest request_;  // the one in service
  ReplyBuffer body_;
  ReplyBuffer* replies_to_ = nullptr;  // the flow's, while a request runs
};

// Makes sessions over UDP. Thread safe as Protocol asks; borrows its arguments.
class RpcDatagramPort final : public Protocol {
 public:
  RpcDatagramPort(Server& server, rpc::AdmissionController& admission)
      : server_(server), admission_(admission) {}

  std::unique_ptr<Session> open(const Peer& peer) override {
    return std::make_unique<RpcKvSession>(server_, peer, admission_, true);
  }
  std::string refusal_for(const Peer& peer) override;

 private:
  Server& server_;
  rpc::AdmissionController& admission_;
};

}  // namespace rubato::kv
