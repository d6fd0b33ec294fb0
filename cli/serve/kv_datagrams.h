// SPDX-License-Identifier: Apache-2.0
//
// The ports of `rubato serve kv` whose clients send datagrams: memcached's text protocol and
// Rubato RPC. Main thread, at start.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/common/command_line.h"
#include "cli/serve/wire_flags.h"
#include "datapath/datagram_datapath.h"
#include "kv_server/memcached/datagrams.h"
#include "kv_server/rpc/session.h"
#include "metrics/open_metrics.h"
#include "rpc/udp.h"

namespace rubato::cli {

struct KvDatagramOptions {
  int memcached_port = -1;  // none
  int rpc_port = -1;        // none
  WireOptions wire;

  bool any() const { return memcached_port >= 0 || rpc_port >= 0; }
};

void add_kv_datagram_options(CommandLine& command, KvDatagramOptions& options);

// Fails with one line where options do not go together.
Status check_kv_datagrams(const KvDatagramOptions& options, const ServeOptions& serve);

// The datapaths of the ports that the options name.
class KvDatagrams {
 public:
  // Opens the wires, for which a process may need capabilities. Fails with one line for what the
  // system does not allow.
  static Result<std::unique_ptr<KvDatagrams>> open(const KvDatagramOptions& options,
                                                   const ServeOptions& serve);
  // Once, before what is below. Borrows the server and the admission controller, which is not null
  // if there is a port for RPC. Fails as open does.
  Status attach(const ServeOptions& serve, kv::Server& server,
                rpc::AdmissionController* admission);

  std::vector<Datapath*> datapaths() const;
  // Null = there is no port for RPC.
  rpc::UdpDatapath* rpc() const { return rpc_.get(); }
  // Appends the families of all ports. Any thread.
  void expose(OpenMetrics& out) const;
  // Of all ports: DatagramWire::look_at_link.
  void look_at_link();
  // A line for each port, each after a line end.
  std::string announcement(const std::string& bind) const;

 private:
  KvDatagrams() = default;
  Status attach_memcached(kv::Server& server);
  Status attach_rpc(const ServeOptions& serve, kv::Server& server,
                    rpc::AdmissionController& admission);

  bool keeps_order_ = false;
  std::unique_ptr<DatagramWire> memcached_wire_;  // these two until attach
  std::unique_ptr<DatagramWire> rpc_wire_;
  std::unique_ptr<kv::MemcachedDatagramPort> memcached_port_;
  std::unique_ptr<DatagramDatapath> memcached_;
  std::unique_ptr<kv::RpcDatagramPort> rpc_port_;
  std::unique_ptr<rpc::UdpDatapath> rpc_;
};

}  // namespace rubato::cli
