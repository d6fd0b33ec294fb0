// SPDX-License-Identifier: Apache-2.0
//
// Options that all `rubato serve` programs share: policy, workers, address, preemption, idling,
// limits, metrics. Main thread, at start.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>

#include "base/log_options.h"
#include "base/result.h"
#include "cli/common/command_line.h"
#include "cli/serve/best_effort_flags.h"
#include "cli/serve/otlp_exporter.h"
#include "datapath/server_options.h"
#include "datapath/tcp.h"
#include "runtime/request_recorder.h"
#include "process/serving.h"
#include "runtime/options.h"
#include "runtime/trace_recorder.h"

namespace rubato::cli {

struct ServeOptions {
  RuntimeOptions runtime;
  ServerOptions server;
  TcpOptions tcp;  // these two follow from the two above, by finish_serve_options
  ServingOptions serving;
  CoresOptions cores;
  LogOptions log;
  std::string config_file;
  bool check_config = false;
  bool print_config = false;
  std::string handover;  // where listeners go from one process to the next; empty = nowhere
  Nanos profile_for;  // 0 = until the server stops
  RequestRecordingOptions requests;
  bool recording = true;  // with a file for requests: from the start
  TraceOptions trace;
  bool tracing = true;  // likewise
  std::string metrics_token_file;
  std::string metrics_token;  // in it
  std::string otlp_url;  // empty = nothing is sent
  OtlpOptions otlp;
};

// Adds the options to `command`; `options` must outlive the parse.
void add_serve_options(CommandLine& command, ServeOptions& options);

// After the parse: reads the environment and the config file, then resolves the raw values. Fails
// with one line.
Status finish_serve_options(CommandLine& command, ServeOptions& options);

// The preemption mechanism, for the start line: "preempt checkpoint (auto)".
std::string preemption_text(const ServeOptions& options);

// Says so where the kernel cannot do as --zerocopy-above says.
void warn_of_copies(const ServeOptions& options, const TcpDatapath& tcp);

// Turns a message of Runtime::create, which names a field, into one that names the option:
// "max_fibers: ..." becomes "--max-fibers: ...".
Error option_error(const std::string& message);

}  // namespace rubato::cli
