// SPDX-License-Identifier: Apache-2.0
//
// Converts rubato_options into the options of the runtime and the datapaths. For set-up; no shared
// state.
#pragma once

#include <rubato/rubato.h>

#include "api/recorders.h"
#include "base/result.h"
#include "datapath/loopback.h"
#include "datapath/server_options.h"
#include "datapath/tcp.h"
#include "rpc/admission.h"
#include "runtime/options.h"

namespace rubato::api {

rubato_options default_options();

// The options that a server is built from.
struct Setup {
  RuntimeOptions runtime;
  bool loopback = false;
  TcpOptions tcp;
  LoopbackOptions wire;
  size_t max_request_bytes = 0;
  size_t max_reply_bytes = 0;
  std::string metrics_bind;
  int metrics_port = -1;
  std::string agent_bind;
  int agent_port = -1;
  bool handle_signals = false;
  RecorderOptions recorders;
  rpc::AdmissionOptions admission;

  // Adapts the options to an application whose framing is RUBATO_FRAMING_RPC.
  void speak_rpc();
};

// Fails with one line that names the option and the values it takes. The runtime and the datapath
// check the policy, its settings and the address themselves.
Result<Setup> read_options(const rubato_options* given);
// The same for an executor: of the options of a server it takes those of the metrics and of what
// is recorded.
Result<Setup> read_executor_options(const rubato_options* given);

}  // namespace rubato::api
