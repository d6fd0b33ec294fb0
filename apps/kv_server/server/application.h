// SPDX-License-Identifier: Apache-2.0
//
// KvApplication: the key-value server as the runtime sees it. It makes sessions, runs requests, and
// is notified of slow ones. Thread safe: every worker calls it. Borrows the engine and the
// admission controller.
#pragma once

#include <memory>

#include "datapath/request.h"
#include "kv_server/commands/table.h"
#include "kv_server/server/server.h"
#include "rpc/admission.h"
#include "runtime/app.h"

namespace rubato::kv {

class KvApplication final : public Application, public Protocol {
 public:
  // `admission` has the sessions of the ports that speak RPC; null if there are none.
  KvApplication(Engine& engine, const KvOptions& options,
                rpc::AdmissionController* admission = nullptr);

  // Lends the services of the host; called before the first request.
  void connect(const Host& host) { server_.connect(host); }

  std::unique_ptr<Session> open(const Peer& peer) override;
  std::string refusal_for(const Peer& peer) override;
  void handle(Request& request) override;
  std::string_view name_of_type(uint32_t type) const override { return type_name(type); }
  void slow(const Request& request, const Completion& times) override;

  // Removes keys whose time is over, about `limit` at most; call it about ten times a second, and
  // again soon while it returns true.
  bool expire_some(uint32_t limit);

  Server& server() { return server_; }

  // Request types run from 0 (unknown command) to request_types()-1; any thread.
  static uint32_t request_types() { return command_table().size(); }
  static const std::string& type_name(uint32_t type) { return command_table().full_name(type); }
  static bool is_control(uint32_t type) { return (command_table()[type].flags & kControl) != 0; }

 private:
  void run_in_session(Request& request);
  template <class F>
  void with_memory(Request& request, KvSession& session, F&& run);
  void say_no_memory(Request& request, KvSession& session, uint64_t mark);
  void serve(Request& request, KvSession& session);
  void run(Request& request, KvSession& session);
  void run_muted(Request& request, KvSession& session);
  bool may_debug(const KvSession& session) const;
  void queue(Request& request, KvSession& session);
  void refuse(Request& request, KvSession& session, std::string_view text);
  void reject_unknown(Request& request, KvSession& session);
  void say_protocol_error(Request& request, KvSession& session);

  Server server_;
  rpc::AdmissionController* const admission_;
  const CommandTable* table_;
};

}  // namespace rubato::kv
