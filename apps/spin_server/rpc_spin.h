// SPDX-License-Identifier: Apache-2.0
//
// The synthetic server over Rubato RPC (docs/RPC.md): the body of a request is
// `NANOSECONDS[ SHORT|LONG]` in ASCII, the body of a reply is `OK`. A request with another body
// fails. Thread safe as Application and Protocol require; borrows the admission controller.
#pragma once

#include <memory>

#include "rpc/server_session.h"
#include "spin_server/spin_server.h"

namespace rubato::spin {

class RpcSpin final : public Application, public Protocol {
 public:
  RpcSpin(const SpinOptions& options, rpc::AdmissionController& admission,
          const rpc::SessionLimits& limits)
      : options_(options), admission_(admission), limits_(limits) {
    limits_.in_service = rpc::kMaxInService;
  }

  std::unique_ptr<Session> open(const Peer& peer) override;
  void handle(Request& request) override;
  void slow(const Request& request, const Completion& times) override;

 private:
  const SpinOptions options_;
  rpc::AdmissionController& admission_;
  rpc::SessionLimits limits_;
};

}  // namespace rubato::spin
