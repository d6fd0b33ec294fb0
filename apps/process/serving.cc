// SPDX-License-Identifier: Apache-2.0
#include "process/serving.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <memory>
#include <thread>

#include "base/log.h"
#include "mechanism/cpu/cgroup.h"
#include "process/core_client.h"
#include "process/housekeeper.h"
#include "process/process_metrics.h"
#include "process/top_page.h"
#include "runtime/agent_port.h"
#include "runtime/exporter.h"
#include "runtime/state_json.h"
#include "runtime/stop_signals.h"

namespace rubato {
namespace {

ExposedTypes types_of(const ServingOptions& options) {
  return {options.type_name, options.types};
}

void expose_all(OpenMetrics& out, const Runtime& runtime, const Datapath& datapath,
                const ServingOptions& options, NamedTypes& named) {
  expose(out, runtime, datapath, types_of(options), named);
  if (options.best_effort != nullptr) options.best_effort->expose(out);
  for (const auto& recorder : options.recorders) recorder.recording->expose(out);
  if (options.more_metrics) options.more_metrics(out);
  expose_process(out, options.version);
}

// The metrics port has a small share of the files that this process may have open.
size_t metrics_connections() {
  constexpr uint64_t kShare = 16, kLeast = 4;
  return std::clamp<uint64_t>(raise_descriptor_limit() / kShare, kLeast,
                              Exporter::Limits().connections);
}

// The files that the server always needs are open by now. Others come and go: one connection per
// worker that is being refused, the connections of the metrics port and one of the agent's, the
// files in /proc that are read, the profile.
Status leave_room(ConnectionLimit connections, const Datapath& datapath, size_t metrics) {
  constexpr uint64_t kComeAndGo = 8;
  connections.kept += datapath.queues() + kComeAndGo + metrics;
  return fit_connections(connections);
}

void warn_of_shared_cpus(const RuntimeOptions& options) {
  const uint32_t cpus = usable_cpus();
  if (options.workers <= cpus) return;
  log_line(LogLevel::kWarning, LogEvent::kStart,
           "--workers: " + std::to_string(options.workers) + " workers share " +
               std::to_string(cpus) + " CPU(s), which is what affinity and CPU quota leave; more "
               "than that cost time and serve no faster");
}

void announce(const ServingOptions& options, const Exporter* exporter, const AgentPort* agent) {
  std::printf("%s\n", options.announcement.c_str());
  if (exporter != nullptr) {
    std::printf("metrics on http%s://%s:%u/metrics\n",
                options.metrics_tls != nullptr ? "s" : "", options.metrics_bind.c_str(),
                exporter->port());
  }
  if (agent != nullptr) {
    std::printf("agent check on %s:%u\n", options.agent_bind.c_str(), agent->port());
  }
  std::fflush(stdout);
}

void log_end(const ServingOptions& options, bool drained) {
  if (!drained) {
    log_line(LogLevel::kError, LogEvent::kStop, "the drain limit passed with requests unfinished");
  }
  log_left_out(true);
  log_line(LogLevel::kInfo, LogEvent::kStop,
           options.stop_note.empty() ? "stopped" : "stopped; " + options.stop_note);
}

Status set_and_log(const LiveOptions& options, const Exporter::Setting& wanted) {
  const Status set = options.set({{wanted.name, wanted.value}});
  if (set.ok()) {
    log_line(LogLevel::kInfo, LogEvent::kReload, "set by the metrics port",
             {{"option", wanted.name}, {"value", wanted.value}, {"peer", wanted.peer}});
  }
  return set;
}

// Of those that record.
Status finish(TrafficRecorder* traffic, const std::vector<LiveRecorder>& recorders) {
  Status first = traffic == nullptr ? Done{} : traffic->finish();
  if (!first.ok()) first = Error{"profile: " + first.error()};
  for (const LiveRecorder& recorder : recorders) {
    const Status recorded = recorder.recording->finish();
    if (!recorded.ok() && first.ok()) {
      first = Error{std::string(recorder.option) + ": " + recorded.error()};
    }
  }
  return first;
}

// Null: there is no metrics port. Borrows the arguments.
Result<std::unique_ptr<Exporter>> start_exporter(Runtime& runtime, Datapath& datapath,
                                                 const ServingOptions& options,
                                                 const LiveOptions& live_options) {
  if (options.metrics_port < 0) return std::unique_ptr<Exporter>();
  const auto metrics = [&, named = NamedTypes()](OpenMetrics& out) mutable {
    expose_all(out, runtime, datapath, options, named);
  };
  const auto state = [&] {
    return state_json(runtime, datapath, types_of(options), {options.version, options.memory});
  };
  Exporter::Setter setter{options.metrics_set_token,
                          [&](const Exporter::Setting& wanted) {
                            return set_and_log(live_options, wanted);
                          }};
  return Exporter::start(options.metrics_bind, static_cast<uint16_t>(options.metrics_port),
                         {metrics, [&] { return runtime.serving(); },
                          [&] { return plan_text(runtime, types_of(options)); }, options.trouble,
                          top_page, state, std::move(setter)},
                         {.connections = metrics_connections()}, options.metrics_tls,
                         options.metrics_listener);
}

void begin_pushing(Runtime& runtime, Datapath& datapath, const ServingOptions& options) {
  if (!options.pusher.begin) return;
  options.pusher.begin([&, named = NamedTypes()]() mutable {
    OpenMetrics out(MetricsFormat::kOpenMetrics, MetricsDetail::kBrief);
    expose_all(out, runtime, datapath, options, named);
    return std::move(out).finish();
  });
}

Result<int> serve(Runtime& runtime, Datapath& datapath, const ServingOptions& options) {
  const LiveOptions live_options(runtime, options.recorders);
  auto exporting = start_exporter(runtime, datapath, options, live_options);
  if (!exporting.ok()) return Error{exporting.error()};
  const std::unique_ptr<Exporter> exporter = std::move(*exporting);
  std::unique_ptr<AgentPort> agent;
  if (options.agent_port >= 0) {
    auto started = AgentPort::start(options.agent_bind, static_cast<uint16_t>(options.agent_port),
                                    runtime, options.agent_listener);
    if (!started.ok()) return Error{started.error()};
    agent = std::move(*started);
  }
  std::unique_ptr<TrafficRecorder> recorder;
  if (!options.recording.file.empty()) {
    auto started = TrafficRecorder::start(options.recording, runtime, datapath, options.types,
                                          options.type_name);
    if (!started.ok()) return Error{"profile: " + started.error()};
    recorder = std::move(*started);
  }
  if (options.cores_manager.empty()) warn_of_shared_cpus(runtime.options());
  std::signal(SIGPIPE, SIG_IGN);
  auto housekeeper = Housekeeper::start(runtime, datapath,
                                        {options.reload, options.type_name, options.memory,
                                         options.each_second});
  if (!housekeeper.ok()) return Error{housekeeper.error()};
  auto signals = StopSignals::install(runtime, (*housekeeper)->wake_fd());
  if (!signals.ok()) return Error{signals.error()};
  const size_t of_metrics = exporter != nullptr ? metrics_connections() : 0;
  if (Status fits = leave_room(options.connections, datapath, of_metrics); !fits.ok()) {
    return Error{fits.error()};
  }
  announce(options, exporter.get(), agent.get());
  std::jthread handing_over;
  if (options.handover != nullptr) {
    handing_over = options.handover->serve([&stopping = **signals] { stopping.stop(); });
  }
  log_line(LogLevel::kInfo, LogEvent::kStart, "started",
           {{"pid", ::getpid()},
            {"version", options.version},
            {"policy", runtime.options().policy},
            {"workers", runtime.options().workers}});
  if (!options.start_note.empty()) {
    log_line(LogLevel::kInfo, LogEvent::kStart, options.start_note);
  }
  (*housekeeper)->ready();
  if (options.best_effort != nullptr) options.best_effort->begin(runtime);
  begin_pushing(runtime, datapath, options);
  const bool drained = runtime.run();
  if (options.best_effort != nullptr) options.best_effort->end();
  (*housekeeper)->end();
  if (options.pusher.end) options.pusher.end();  // workers that have ended are not stuck
  log_end(options, drained);
  if (Status recorded = finish(recorder.get(), options.recorders); !recorded.ok()) {
    return Error{recorded.error()};
  }
  return drained ? 0 : 1;
}

}  // namespace

Result<int> serve_until_signal(Runtime& runtime, Datapath& datapath,
                               const ServingOptions& options) {
  if (options.cores_manager.empty()) return serve(runtime, datapath, options);
  // The server before has no listeners any more.
  const bool must_serve = options.handover != nullptr && options.handover->took_over();
  const auto joined = CoreClient::join(options.cores_manager, runtime, must_serve);
  if (!joined.ok()) return Error{joined.error()};
  ServingOptions managed = options;
  managed.more_metrics = [&cores = *joined.value(), &options](OpenMetrics& out) {
    if (options.more_metrics) options.more_metrics(out);
    cores.expose(out);
  };
  return serve(runtime, datapath, managed);
}

}  // namespace rubato
