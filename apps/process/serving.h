// SPDX-License-Identifier: Apache-2.0
//
// Serving: the work of every server program around a runtime: signals, the log, the metrics port,
// the metrics themselves, the service manager, and recording a profile. Called from main's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/memory_account.h"
#include "base/result.h"
#include "datapath/tls.h"
#include "metrics/open_metrics.h"
#include "process/best_effort.h"
#include "process/descriptors.h"
#include "process/handover.h"
#include "process/live_options.h"
#include "runtime/traffic_recorder.h"
#include "runtime/exposition.h"
#include "runtime/runtime.h"

namespace rubato {

struct ServingOptions {
  std::string version;       // of this program
  std::string announcement;  // a line printed once clients are welcome and signals are handled
  std::string metrics_bind = "127.0.0.1";
  int metrics_port = -1;  // -1 = none, 0 = any free one
  int metrics_listener = -1;  // handed over, in the place of bind and port; -1 = none
  // Who knows the token that it returns may set options there; empty, or an empty token = nobody.
  // Any thread.
  std::function<std::string()> metrics_set_token;
  TlsContext* metrics_tls = nullptr;  // null = the metrics port is without TLS
  std::string agent_bind = "127.0.0.1";
  int agent_port = -1;  // of a load balancer's agent check; -1 = none, 0 = any free one
  int agent_listener = -1;
  // Name of a request type in the metrics; empty = the type is not shown.
  std::function<std::string(uint32_t)> type_name;
  uint32_t types = 0;
  MemoryAccount* memory = nullptr;  // of the stacks, too; null = of none. Outlives the call
  // The requests are recorded for a profile if this names a file.
  RecordingOptions recording;
  // What else is recorded. The recordings outlive the call.
  std::vector<LiveRecorder> recorders;
  ConnectionLimit connections;
  // The best-effort command, started once clients are welcome; null = none. Outlives the call.
  BestEffort* best_effort = nullptr;
  // The Unix socket of the manager that the cores are shared by (process/core_client.h); empty =
  // none. Requires an allocator of cores.
  std::string cores_manager;
  // Where the next server gets the listeners; null = nowhere. Outlives the call.
  Handover* handover = nullptr;
  // Loads the configuration again and logs what becomes of it, on another thread; may be null.
  std::function<void()> reload;
  // For the operator, at the start and when the server has stopped; empty = nothing.
  std::string start_note;
  std::string stop_note;
  // Why requests fail at present, for /readyz; empty = they do not. Any thread.
  std::function<std::string()> trouble;
  // Sends the metrics somewhere: `begin` is given what makes their text, of OpenMetrics, for any
  // thread until `end`, which is called once the server has stopped. Empty = nowhere.
  struct Pusher {
    std::function<void(std::function<std::string()> scrape)> begin = {};
    std::function<void()> end = {};
  } pusher;
  // Called about once a second while the server runs, on another thread; may be null.
  std::function<void()> each_second;
  // Appends families of the application's own. Any thread.
  std::function<void(OpenMetrics&)> more_metrics;
};

// Runs until SIGTERM, SIGINT or a handover, then drains; a second signal exits at once with status
// 1. SIGHUP reloads, SIGUSR1 logs what the server does (process/housekeeper.h). Returns the exit
// status: 0 = all requests in flight were answered. Fails if the metrics port is in use, if the
// manager of cores refuses the server or is not there, and if the
// profile cannot be written, at the start or at the end.
Result<int> serve_until_signal(Runtime& runtime, Datapath& datapath, const ServingOptions& options);

}  // namespace rubato
