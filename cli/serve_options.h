// SPDX-License-Identifier: Apache-2.0
//
// Options that all `rubato serve` programs share: policy, workers, address, preemption, idling,
// limits, metrics. Main thread, at start.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "datapath/tcp.h"
#include "host/serving.h"
#include "runtime/options.h"
#include "serve_cores.h"

namespace CLI {
class App;
}

namespace rubato::cli {

struct ServeOptions {
  RuntimeOptions runtime;
  TcpOptions tcp;
  ServingOptions serving;
  CoresOptions cores;
  std::string config_file;

  // Raw values of the command line, resolved by finish_serve_options.
  std::string classify = "age";
  std::string preempt = "auto";
  std::string preempt_clock = "self";
  std::string idle = "adaptive";
  double idle_spin_us = 50;
  double drain_limit_s = 10;
  std::string overload = "none";
  Nanos target_delay = Nanos::millis(3);
  Nanos target_delay_long;            // 0 = none of its own
  uint32_t sessions_per_address = 0;  // of RPC; 0 = no limit of its own
  Nanos profile_for;  // 0 = until the server stops
  uint32_t stack_kib = 64;
  uint32_t timeout_s = 0;
  std::vector<std::string> settings;
};

// Adds the options to `command`; `options` must outlive the parse.
void add_serve_options(CLI::App& command, ServeOptions& options);

// After the parse: reads the config file, then resolves the raw values. Fails with one line.
Status finish_serve_options(CLI::App& command, ServeOptions& options);

// How requests are preempted, for the start line: "preempt checkpoint (auto)".
std::string preemption_text(const ServeOptions& options);

// A message of Runtime::create, which names the field it is about, for somebody who gave options:
// "max_fibers: ..." becomes "--max-fibers: ...".
Error option_error(const std::string& message);

}  // namespace rubato::cli
