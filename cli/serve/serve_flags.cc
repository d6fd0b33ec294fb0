// SPDX-License-Identifier: Apache-2.0
#include "cli/serve/serve_flags.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/log.h"
#include "cli/common/command_registry.h"
#include "cli/common/config_file.h"
#include "cli/common/environment.h"
#include "cli/common/scheduler_flags.h"
#include "cli/common/token_file.h"
#include "cli/common/value_flags.h"
#include "mechanism/cpu/cgroup.h"
#include "mechanism/cpu/pin.h"
#include "mechanism/preempt/mechanism.h"
#include "workload/duration.h"

namespace rubato::cli {
namespace {

constexpr double kMostRecordMib = 1e6;
constexpr Nanos kLongestProfile = Nanos::seconds(1'000'000);

void add_profile_options(CommandLine& command, ServeOptions& o) {
  command.add_text("--profile", o.serving.recording.file,
                   "Write what requests come to this file, for `rubato sim --workload "
                   "profile:FILE`: every 10 s and at the end")
      .placeholder("FILE");
  add_seconds(command, "--profile-for", o.profile_for, Nanos::seconds(1), kLongestProfile,
              "Record for so long, from the first request on; default: until the server stops");
}

void add_switch(CommandLine& command, const std::string& name, bool& on, const char* help) {
  command
      .add_parsed(name, "yes|no",
                  [&on](const std::string& text) -> Status {
                    if (text != "yes" && text != "no") return Error{"takes yes or no"};
                    on = text == "yes";
                    return Done{};
                  },
                  help)
      .default_text("yes");
}

void add_trace_options(CommandLine& command, ServeOptions& o) {
  command.add_text("--trace", o.trace.file,
                   "Write what every worker does to this file, for ui.perfetto.dev and `rubato "
                   "trace diff`, as `rubato sim --trace` does")
      .placeholder("FILE");
  add_switch(command, "--tracing", o.tracing,
             "With --trace: no = not from the start. SIGHUP, and CONFIG SET tracing of `serve "
             "kv`, start and end it; each start writes the file anew");
  add_count(command, "--trace-events", o.trace.events, 1, TraceOptions::kMostEvents,
            "a number of events", "Events at which a trace ends, at some 90 bytes each");
}

void add_otlp_options(CommandLine& command, ServeOptions& o) {
  command
      .add_parsed("--otlp", "URL",
                  [&o](const std::string& text) -> Status {
                    Result<OtlpCollector> collector = parse_otlp_url(text);
                    if (!collector.ok()) return Error{collector.error()};
                    o.otlp.collector = std::move(*collector);
                    o.otlp_url = text;
                    return Done{};
                  },
                  "Send the metrics to this collector of OpenTelemetry, as OTLP in JSON over HTTP: "
                  "http://HOST[:PORT][/PATH] or https://; port 4318 by default")
      .default_text("");
  command
      .add_parsed("--otlp-sample", "PART",
                  [&o](const std::string& text) -> Status {
                    const std::optional<double> part = parse_number(text);
                    if (!part || *part < 0 || *part > 1) {
                      return Error{"takes a part of 0 to 1, not '" + text + "'"};
                    }
                    o.otlp.sample = *part;
                    return Done{};
                  },
                  "With --otlp: also send this part of the requests, drawn at random, as spans")
      .default_text("0");
  add_seconds(command, "--otlp-interval", o.otlp.interval, Nanos::millis(100),
              Nanos::seconds(3600), "With --otlp: between two messages")
      .default_text("10");
}

Status resolve_otlp(ServeOptions& o) {
  if (o.otlp.sample > 0 && o.otlp_url.empty()) return Error{"--otlp-sample: needs --otlp"};
  if (o.otlp.interval != OtlpOptions().interval && o.otlp_url.empty()) {
    return Error{"--otlp-interval: needs --otlp"};
  }
  if (o.otlp.sample > 0) o.runtime.record_requests = true;
  return Done{};
}

void add_record_options(CommandLine& command, ServeOptions& o) {
  command.add_text("--record", o.requests.file,
                   "Write every request to this file, for `rubato sim --workload trace:FILE`")
      .placeholder("FILE");
  add_switch(command, "--recording", o.recording,
             "With --record: no = not from the start. SIGHUP, and CONFIG SET recording of "
             "`serve kv`, start and end it; each start writes the file anew");
  command
      .add_parsed("--record-limit", "MIB",
                  [&o](const std::string& text) -> Status {
                    const std::optional<double> mib = parse_number(text);
                    if (!mib || *mib < 1 || *mib > kMostRecordMib || *mib != std::floor(*mib)) {
                      return Error{"takes whole MiB of 1 to 1000000, not '" + text + "'"};
                    }
                    o.requests.most_bytes = static_cast<uint64_t>(*mib) << 20;
                    return Done{};
                  },
                  "Size at which a recording ends, at some 10 bytes a request")
      .default_text("1024");
}

Status check_files(const CommandLine& command, const ServeOptions& o) {
  if (command.given("--record") && o.requests.file.empty()) {
    return Error{"--record: takes the name of a file"};
  }
  if (command.given("--trace") && o.trace.file.empty()) {
    return Error{"--trace: takes the name of a file"};
  }
  if (o.requests.file.empty() && !o.recording) return Error{"--recording: needs --record FILE"};
  if (o.requests.file.empty() && o.requests.most_bytes != RequestRecordingOptions().most_bytes) {
    return Error{"--record-limit: needs --record FILE"};
  }
  if (o.trace.file.empty() && !o.tracing) return Error{"--tracing: needs --trace FILE"};
  if (o.trace.file.empty() && o.trace.events != TraceOptions::kDefaultEvents) {
    return Error{"--trace-events: needs --trace FILE"};
  }
  return Done{};
}

Status resolve_recording(const CommandLine& command, ServeOptions& o) {
  RecordingOptions& recording = o.serving.recording;
  if (command.given("--profile") && recording.file.empty()) {
    return Error{"--profile: takes the name of a file"};
  }
  if (o.profile_for > Nanos() && recording.file.empty()) {
    return Error{"--profile-for: needs --profile FILE"};
  }
  if (o.profile_for > Nanos()) recording.length = o.profile_for;
  recording.version = version();
  o.serving.version = version();
  o.runtime.record_arrivals = !recording.file.empty();
  o.runtime.record_requests = !o.requests.file.empty();
  o.runtime.record_traces = !o.trace.file.empty();
  return check_files(command, o);
}

Status resolve_token(const CommandLine& command, ServeOptions& o) {
  if (!command.given("--metrics-set-token")) return Done{};
  if (o.metrics_token_file.empty()) return Error{"--metrics-set-token: takes the name of a file"};
  if (o.serving.metrics_port < 0) return Error{"--metrics-set-token: needs --metrics-port"};
  Result<std::string> token = read_token(o.metrics_token_file);
  if (!token.ok()) return Error{"--metrics-set-token: " + token.error()};
  o.metrics_token = token.value();
  return Done{};
}

// A worker for each CPU that those before the first are not on.
void count_workers(RuntimeOptions& runtime) {
  if (runtime.workers > 0) return;
  const uint32_t cpus = std::min(usable_cpus(), limits::kMaxWorkers);
  runtime.workers = cpus - std::min(runtime.pin_first, cpus - 1);
}

void use_ports(ServeOptions& o) {
  const ServerOptions& server = o.server;
  o.tcp.bind = server.bind;
  o.tcp.port = static_cast<uint16_t>(server.port);
  o.tcp.queues = o.runtime.workers;
  o.tcp.max_flows = server.max_connections;
  o.tcp.idle_timeout = server.idle_timeout;
  o.tcp.busy_poll = server.busy_poll;
  o.tcp.zerocopy_above = server.zerocopy_above;
  o.tcp.date_backlog = o.runtime.goes_by_waits();
  o.serving.metrics_bind = server.metrics_bind;
  o.serving.metrics_port = server.metrics_port;
  o.serving.agent_bind = server.agent_bind;
  o.serving.agent_port = server.agent_port;
}

Status use_incoming_cpu(ServeOptions& o) {
  if (!o.server.incoming_cpu) return Done{};
  if (!o.runtime.pin) return Error{"--incoming-cpu: needs --pin"};
  if (!o.handover.empty()) {
    return Error{"--incoming-cpu: does not go with --handover, whose listeners are for all "
                 "workers"};
  }
  auto cpus = cpus_of_workers(o.runtime.pin_first, o.runtime.workers);
  if (!cpus.ok()) return Error{cpus.error()};
  o.tcp.cpus = std::move(*cpus);
  return Done{};
}

}  // namespace

std::string preemption_text(const ServeOptions& options) {
  const PreemptMechanism mechanism = resolve(options.runtime.preempt);
  const bool chosen = options.runtime.preempt == PreemptMechanism::kAuto;
  return std::string("preempt ") + to_string(mechanism) + (chosen ? " (auto)" : "");
}

void add_serve_options(CommandLine& command, ServeOptions& options) {
  options.runtime.workers = 0;
  add_flags(command, static_cast<SchedulerOptions&>(options.runtime), kServe);
  add_flags(command, options.server, kServe);
  add_flags(command, options.log, kServe);
  add_best_effort_options(command, options.cores);
  add_profile_options(command, options);
  add_record_options(command, options);
  add_trace_options(command, options);
  add_otlp_options(command, options);
  command
      .add_text("--metrics-set-token", options.metrics_token_file,
                "Who sends the token in this file, of 16 bytes or more, to the metrics port may "
                "set there what CONFIG SET of `serve kv` sets of the scheduler, and start and end "
                "recordings and traces (rubato top). SIGHUP reads the file again. The token is not "
                "encrypted on its way without --tls-metrics; default: the port is read only")
      .placeholder("FILE");
  command.add_existing_file("--config", options.config_file,
                            "TOML file with these options as keys; SIGHUP reads it again");
  command.add_text("--handover", options.handover,
                   "Unix socket at which the next process of this server, started with the same "
                   "PATH, takes the listeners over; this one then drains and ends, and no "
                   "connection is refused meanwhile")
      .placeholder("PATH");
  command.add_flag("--check-config", options.check_config,
                   "Check the options, wherever they come from, and exit: 0, or 2 with a line");
  command.add_flag("--print-config", options.print_config,
                   "Check the options, print them as a file for --config, and exit");
}

Status finish_serve_options(CommandLine& command, ServeOptions& o) {
  if (Status read = apply_environment(command); !read.ok()) return read;
  if (!o.config_file.empty()) {
    Status applied = apply_config_file(o.config_file, command);
    if (!applied.ok()) return applied;
  }
  count_workers(o.runtime);
  if (Status fits = finish_best_effort_options(command, o.cores, o.runtime); !fits.ok()) {
    return fits;
  }
  o.serving.cores_manager = o.cores.manager;
  o.runtime.cores_managed = !o.cores.manager.empty();
  use_ports(o);
  if (command.given("--handover") && o.handover.empty()) {
    return Error{"--handover: takes the path of a Unix socket"};
  }
  if (Status cpus = use_incoming_cpu(o); !cpus.ok()) return cpus;
  if (Status token = resolve_token(command, o); !token.ok()) return token;
  if (Status resolved = resolve_recording(command, o); !resolved.ok()) return resolved;
  return resolve_otlp(o);
}

void warn_of_copies(const ServeOptions& options, const TcpDatapath& tcp) {
  if (options.server.zerocopy_above == 0 || tcp.sends_in_place()) return;
  log_line(LogLevel::kWarning, LogEvent::kStart,
           "the kernel copies all replies: it has no MSG_ZEROCOPY for --zerocopy-above");
}

Error option_error(const std::string& message) {
  const size_t end = message.find(": ");
  const std::string name = message.substr(0, end);
  if (end == std::string::npos || name.find(' ') != std::string::npos) return Error{message};
  std::string option = "--" + name;
  std::replace(option.begin(), option.end(), '_', '-');
  return Error{option + message.substr(end)};
}

}  // namespace rubato::cli
