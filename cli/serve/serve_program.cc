// SPDX-License-Identifier: Apache-2.0
#include "cli/serve/serve_program.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/option_text.h"
#include "cli/common/config_file.h"
#include "cli/common/scheduler_flags.h"
#include "datapath/loopback.h"
#include "datapath/tcp_socket.h"
#include "process/handed_over.h"
#include "process/handover.h"
#include "process/live_options.h"
#include "runtime/runtime.h"
#include "spin_server/spin_server.h"

namespace rubato::cli {
namespace {

// A runtime that serves nobody knows what only it can tell: policies, settings, preemption.
Status check_runtime(const ServeOptions& options) {
  spin::SpinServer nobody(spin::SpinOptions{});
  LoopbackOptions queues;
  queues.queues = options.runtime.workers;
  LoopbackDatapath wire(queues, nobody);
  const auto runtime = Runtime::create(options.runtime, wire, nobody);
  return runtime.ok() ? Status(Done{}) : Status(option_error(runtime.error()));
}

int answer(CommandLine& command, const ServeProgram& program) {
  const ServeOptions& options = program.options();
  if (Status fits = check_runtime(options); !fits.ok()) {
    return refuse(program, kBadArguments, fits.error());
  }
  if (options.print_config) {
    std::fputs(config_text(command).c_str(), stdout);
  } else {
    std::printf("the configuration is valid%s%s\n", options.config_file.empty() ? "" : ": ",
                options.config_file.c_str());
  }
  return kDone;
}

Status open_log(const LogOptions& log) {
  log_configure(log.level, log.format);
  if (log.file.empty()) return Done{};
  const Status opened = log_open(log.file);
  return opened.ok() ? opened : Error{"--log-file: " + opened.error()};
}

Status use_handed_over(ServeOptions& options) {
  auto handed_over = handed_over_listeners();
  if (!handed_over.ok()) return Error{handed_over.error()};
  if (!handed_over->empty() && !options.handover.empty()) {
    return Error{"--handover: the service manager keeps the listeners already (LISTEN_FDS)"};
  }
  options.tcp.handed_over = std::move(*handed_over);
  return Done{};
}

Status check_handover(const ServeProgram& program) {
  const ServeOptions& options = program.options();
  if (options.handover.empty()) return Done{};
  ServeProgram::Ports ports = program.ports();
  ports.emplace_back("--metrics-port", options.server.metrics_port);
  ports.emplace_back("--agent-port", options.server.agent_port);
  for (const auto& [option, port] : ports) {
    if (port == 0) return Error{std::string(option) + ": takes a port, not 0, with --handover"};
  }
  return Done{};
}

// What stands in the file stays, also where it can have no other name: then nothing is `wanted`,
// and the server, which is the only one by now, serves all the same.
void keep_file(const char* option, const std::string& file, bool& wanted) {
  if (file.empty()) return;
  const Status kept = set_file_aside(file);
  if (kept.ok()) return;
  wanted = false;
  log_line(LogLevel::kWarning, LogEvent::kProfile,
           std::string(option) + " waits until it is set, to keep the file of the server before",
           {{"reason", kept.error()}});
}

// All listeners of the program: those of the server before, and new ones.
Status take_over(ServeProgram& program, Handover& handover) {
  ServeOptions& options = program.options();
  const auto take = [&](const std::string& bind, int port) {
    return handover.listener(bind, static_cast<uint16_t>(port), options.tcp.backlog);
  };
  for (const auto& [option, port] : program.ports()) {
    if (port < 0) continue;
    Result<int> listener = take(options.server.bind, port);
    if (!listener.ok()) return Error{listener.error()};
    options.tcp.handed_over.push_back(*listener);
  }
  ServingOptions& serving = options.serving;
  if (serving.metrics_port > 0) {
    Result<int> listener = take(serving.metrics_bind, serving.metrics_port);
    if (!listener.ok()) return Error{"metrics port: " + listener.error()};
    serving.metrics_listener = *listener;
  }
  if (serving.agent_port > 0) {
    Result<int> listener = take(serving.agent_bind, serving.agent_port);
    if (!listener.ok()) return Error{"agent port: " + listener.error()};
    serving.agent_listener = *listener;
  }
  // What the server before has recorded is as complete as it will be.
  if (handover.took_over()) {
    keep_file("--record", options.requests.file, options.recording);
    keep_file("--trace", options.trace.file, options.tracing);
  }
  serving.handover = &handover;
  const Status listens = handover.listen();
  return listens.ok() ? listens : Error{"--handover: " + listens.error()};
}

// The token of --metrics-set-token that holds now. Any thread.
class MetricsToken {
 public:
  explicit MetricsToken(std::string token) : token_(std::move(token)) {}

  std::string value() const {
    const std::scoped_lock lock(mutex_);
    return token_;
  }
  // Each reload reads the file again, which may have changed though its name did not.
  void follow(Reloader& reloader) {
    const auto take = [this](const ServeProgram& loaded) -> Status {
      const std::scoped_lock lock(mutex_);
      token_ = loaded.options().metrics_token;
      return Done{};
    };
    reloader.can_apply("metrics-set-token", take);
    reloader.each_time(take);
  }

 private:
  mutable std::mutex mutex_;
  std::string token_;
};

// Ends the server before if there is one, so that no option may be wrong that can be checked.
// Null: there is no handover. Fails with one line.
Result<std::unique_ptr<Handover>> open_handover(const ServeOptions& options) {
  if (options.handover.empty()) return std::unique_ptr<Handover>();
  if (Status fits = check_runtime(options); !fits.ok()) return Error{fits.error()};
  auto opened = Handover::open(options.handover);
  if (!opened.ok()) return Error{"--handover: " + opened.error()};
  return opened;
}

// The one on that port, which is no longer the datapath's; -1 = none.
int take_listener(std::vector<int>& handed_over, int port) {
  const auto found = std::find_if(handed_over.begin(), handed_over.end(), [port](int listener) {
    return port > 0 && local_address(listener).port() == port;
  });
  if (found == handed_over.end()) return -1;
  const int listener = *found;
  handed_over.erase(found);
  return listener;
}

}  // namespace

Status load_options(CommandLine& command, ServeProgram& program) {
  Status loaded = finish_serve_options(command, program.options());
  if (loaded.ok()) loaded = program.check();
  return loaded.ok() ? check_handover(program) : loaded;
}

void reload_scheduler(Reloader& reloader, Runtime& runtime) {
  std::vector<std::string> flags;
  for (const OptionDescription& option : describe<SchedulerOptions>()) {
    if ((option.hosts & kServe) == 0 || std::string_view(option.name) == "workers") continue;
    flags.push_back(flag_of(option.name).substr(2));
  }
  reloader.can_apply_together(flags, [&runtime](const ServeProgram& loaded,
                                                const std::vector<std::string>& changed) -> Status {
    const Status applied = runtime.change([&](SchedulerOptions& options) -> Status {
      for (std::string name : changed) {
        std::replace(name.begin(), name.end(), '-', '_');
        copy_option<SchedulerOptions>(loaded.options().runtime, name, options);
      }
      return Done{};
    });
    return applied.ok() ? applied : option_error(applied.error());
  });
}

Result<Recorders> start_recorders(ServeOptions& options, Runtime& runtime, RequestFeed& requests,
                                  Reloader& reloader) {
  ServingOptions& serving = options.serving;
  Recorders recorders;
  const auto add = [&](const char* option, const char* key, std::unique_ptr<Recording> recording,
                       bool ServeOptions::* wanted) -> Status {
    if (options.*wanted) {
      const Status begun = recording->record(true);
      if (!begun) return Error{std::string("--") + option + ": " + begun.error()};
    }
    reloader.can_apply(key, [&recording = *recording, wanted](const ServeProgram& loaded) {
      return recording.record(loaded.options().*wanted);
    });
    serving.recorders.push_back({option, key, recording.get()});
    recorders.push_back(std::move(recording));
    return Done{};
  };
  Status added = Done{};
  if (!options.requests.file.empty()) {
    added = add("record", "recording",
                std::make_unique<RequestRecorder>(options.requests, requests, serving.types,
                                                  serving.type_name),
                &ServeOptions::recording);
  }
  if (added.ok() && !options.trace.file.empty()) {
    added = add("trace", "tracing",
                std::make_unique<TraceRecorder>(options.trace, runtime.trace_rings(),
                                                serving.types, serving.type_name),
                &ServeOptions::tracing);
  }
  if (!added.ok()) return Error{added.error()};
  return recorders;
}

Result<std::unique_ptr<OtlpExporter>> open_otlp(const ServeProgram& program,
                                                ServingOptions& serving, RequestFeed& requests) {
  const ServeOptions& options = program.options();
  if (options.otlp_url.empty()) return std::unique_ptr<OtlpExporter>();
  OtlpOptions otlp = options.otlp;
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  otlp.resource = {.service = std::string("rubato-") + program.name(),
                   .version = serving.version,
                   .instance = std::string(host.data()) + ":" + std::to_string(::getpid())};
  auto opened = OtlpExporter::open(std::move(otlp), requests, serving.type_name);
  if (!opened.ok()) return Error{"--otlp: " + opened.error()};
  OtlpExporter& exporter = **opened;
  serving.pusher = {[&exporter](std::function<std::string()> scrape) {
                      exporter.begin(std::move(scrape));
                    },
                    [&exporter] { exporter.end(); }};
  serving.more_metrics = [&exporter, others = serving.more_metrics](OpenMetrics& out) {
    if (others) others(out);
    exporter.expose(out);
  };
  return opened;
}

int refuse(const ServeProgram& program, int status, const std::string& message) {
  if (logs_to_file()) log_line(LogLevel::kError, LogEvent::kStart, message);
  std::fprintf(stderr, "rubato serve %s: %s\n", program.name(), message.c_str());
  return status;
}

int run_program(CommandLine& command, ServeProgram& program) {
  const GivenOptions given = given_options(command);
  if (Status loaded = load_options(command, program); !loaded.ok()) {
    return refuse(program, kBadArguments, loaded.error());
  }
  ServeOptions& options = program.options();
  if (options.check_config || options.print_config) return answer(command, program);
  if (Status opened = open_log(options.log); !opened.ok()) {
    return refuse(program, kBadArguments, opened.error());
  }
  if (Status used = use_handed_over(options); !used.ok()) {
    return refuse(program, kBadArguments, used.error());
  }
  ServingOptions& serving = options.serving;
  serving.metrics_listener = take_listener(options.tcp.handed_over, serving.metrics_port);
  serving.agent_listener = take_listener(options.tcp.handed_over, serving.agent_port);
  auto handover = open_handover(options);
  if (!handover.ok()) return refuse(program, kBadArguments, handover.error());
  if (*handover != nullptr) {
    const Status taken = take_over(program, **handover);
    if (!taken.ok()) return refuse(program, kFailed, taken.error());
  }
  Reloader reloader(command, given, program);
  MetricsToken token(options.metrics_token);
  token.follow(reloader);
  serving.metrics_set_token = [&token] { return token.value(); };
  options.serving.reload = [&reloader] { reloader.reload(); };
  return program.serve(reloader);
}

}  // namespace rubato::cli
