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
#include "rpc/admission.h"
#include "rpc/udp.h"

namespace rubato::cli {

struct RpcServeOptions {
  std::string transport;  // "tcp", "udp", or empty: not spoken

  bool spoken() const { return !transport.empty(); }
  bool over_udp() const { return transport == "udp"; }
};

void add_rpc_options(CommandLine& command, RpcServeOptions& options);

// After finish_serve_options: `spoken` says whether the server speaks RPC, by the option that
// `needs` names. Fails with one line where options do not go together.
Status check_rpc_options(bool spoken, const char* needs, const ServeOptions& serve);

// What the admission controller of such a server is made with. Also has connections over the limit
// told so, and requests dated that wait in the kernel. Fails with one line for a setting that does
// not exist.
Result<rpc::AdmissionOptions> admission_options(ServeOptions& serve);

// Where it is heard.
struct RpcDatapath {
  std::unique_ptr<Datapath> datapath;
  uint16_t port = 0;
  const rpc::UdpDatapath* udp = nullptr;  // if it is that
  TcpDatapath* tcp = nullptr;             // if it is that
};
Result<RpcDatapath> open_rpc(const RpcServeOptions& options, const ServeOptions& serve,
                             Protocol& protocol);

// While the server serves, its admission controller belongs to its datapath, tells its cores of its
// credits, and is seen in the metrics. Null: there is none. Borrows all it is given; `udp` is the
// datapath if it is one.
class AdmissionInService {
 public:
  AdmissionInService(rpc::AdmissionController* admission, Datapath& datapath, ServeOptions& options,
                const rpc::UdpDatapath* udp = nullptr);

 private:
  std::optional<rpc::AdmissionAttachment> attached_;
};

}  // namespace rubato::cli
