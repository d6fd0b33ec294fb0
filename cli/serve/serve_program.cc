// SPDX-License-Identifier: Apache-2.0
#include "cli/serve/serve_program.h"

#include <algorithm>
#include <cstdio>
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
  return loaded.ok() ? program.check() : loaded;
}

void reload_scheduler(Reloader& reloader, Runtime& runtime) {
  std::vector<std::string> flags;
  for (const OptionDescription& option : describe<SchedulerOptions>()) {
    if ((option.hosts & kServe) == 0 || std::string_view(option.name) == "workers") continue;
    flags.push_back(flag_of(option.name).substr(2));
  }
  reloader.can_apply_together(flags, [&runtime](const ServeProgram& loaded,
                                                const std::vector<std::string>& changed) -> Status {
    SchedulerOptions options = runtime.scheduler_options();
    for (std::string name : changed) {
      std::replace(name.begin(), name.end(), '-', '_');
      copy_option<SchedulerOptions>(loaded.options().runtime, name, options);
    }
    const Status applied = runtime.change(options);
    return applied.ok() ? applied : option_error(applied.error());
  });
}

Result<std::unique_ptr<RequestRecorder>> start_recorder(ServeOptions& options, Runtime& runtime,
                                                        Reloader& reloader) {
  if (options.requests.file.empty()) return std::unique_ptr<RequestRecorder>();
  auto recorder = std::make_unique<RequestRecorder>(options.requests, runtime.request_rings(),
                                                    options.serving.types,
                                                    options.serving.type_name);
  if (options.recording) {
    if (Status begun = recorder->record(true); !begun) return Error{"--record: " + begun.error()};
  }
  reloader.can_apply("recording", [&recorder = *recorder](const ServeProgram& loaded) {
    return recorder.record(loaded.options().recording);
  });
  options.serving.requests = recorder.get();
  return recorder;
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
  auto handed_over = handed_over_listeners();
  if (!handed_over.ok()) return refuse(program, kBadArguments, handed_over.error());
  options.tcp.handed_over = std::move(*handed_over);
  ServingOptions& serving = options.serving;
  serving.metrics_listener = take_listener(options.tcp.handed_over, serving.metrics_port);
  serving.agent_listener = take_listener(options.tcp.handed_over, serving.agent_port);
  Reloader reloader(command, given, program);
  options.serving.reload = [&reloader] { reloader.reload(); };
  return program.serve(reloader);
}

}  // namespace rubato::cli
