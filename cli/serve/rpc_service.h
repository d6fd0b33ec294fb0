// SPDX-License-Identifier: Apache-2.0
//
// Options of servers that speak Rubato RPC (docs/RPC.md). Main thread, at start.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "cli/common/command_line.h"
#include "cli/serve/serve_flags.h"
#include "cli/serve/wire_flags.h"
#include "rpc/admission.h"
#include "rpc/udp.h"

namespace rubato::cli {

struct RpcServeOptions {
  std::string transport;  // "tcp", "udp", or empty: no Rubato RPC

  bool spoken() const { return !transport.empty(); }
  bool over_udp() const { return transport == "udp"; }
};

void add_rpc_options(CommandLine& command, RpcServeOptions& options);

// After finish_serve_options: `spoken` says whether the server speaks RPC, by the option that
// `needs` names. Fails with one line where options do not go together.
Status check_rpc_options(bool spoken, const char* needs, const ServeOptions& serve);

// The options of such a server's admission controller. Also changes `serve`: a connection over the
// limit gets an error, and requests that wait in the kernel are dated. Fails with one line for a
// setting that does not exist.
Result<rpc::AdmissionOptions> admission_options(ServeOptions& serve);

// The datapath that receives the requests.
struct RpcDatapath {
  std::unique_ptr<Datapath> datapath;
  uint16_t port = 0;
  rpc::UdpDatapath* udp = nullptr;  // if it is that
  TcpDatapath* tcp = nullptr;       // if it is that
};
Result<RpcDatapath> open_rpc(const RpcServeOptions& options, const WireOptions& wire,
                             const ServeOptions& serve, Protocol& protocol);

// Connects the admission controller to its datapath, to the allocation of cores and to the metrics
// while the server serves. Null: there is none. Borrows its arguments; `udp` is the datapath if
// that is one over UDP.
class AdmissionInService {
 public:
  AdmissionInService(rpc::AdmissionController* admission, Datapath& datapath, ServeOptions& options,
                const rpc::UdpDatapath* udp = nullptr);

 private:
  std::optional<rpc::AdmissionAttachment> attached_;
};

}  // namespace rubato::cli
