// SPDX-License-Identifier: Apache-2.0
//
// `rubato serve spin`: the synthetic server (apps/spin_server) on TCP.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "cli/common/command_registry.h"
#include "cli/common/value_flags.h"
#include "cli/serve/rpc_service.h"
#include "cli/serve/serve_flags.h"
#include "runtime/runtime.h"
#include "spin_server/rpc_spin.h"
#include "spin_server/spin_server.h"

namespace rubato::cli {
namespace {

constexpr uint16_t kDefaultPort = 7379;

struct SpinCommand {
  ServeOptions options;
  RpcServeOptions rpc;
  Nanos long_over = Nanos::micros(10);

  spin::SpinOptions spin() const { return {long_over, Nanos::seconds(10)}; }
};

int refuse(int status, const std::string& message) {
  std::fprintf(stderr, "rubato serve spin: %s\n", message.c_str());
  return status;
}

// `tcp` is the datapath if connections are files, else null.
int serve(ServeOptions& options, Datapath& datapath, TcpDatapath* tcp, Application& application,
          const std::string& where) {
  auto runtime = Runtime::create(options.runtime, datapath, application);
  if (!runtime.ok()) return refuse(kBadArguments, option_error(runtime.error()).message);
  options.serving.types = 3;
  options.serving.type_name = [](uint32_t type) {
    return std::string(type == spin::kShort ? "short" : type == spin::kLong ? "long" : "control");
  };
  options.serving.recording.is_control = [](uint32_t type) { return type == spin::kControl; };
  options.serving.announcement =
      fmt::format("rubato serve spin: policy {}, {} worker(s), {}, {}", options.runtime.policy,
                  options.runtime.workers, preemption_text(options), where);
  if (tcp != nullptr) {
    options.serving.connections.wanted = options.server.max_connections;
    options.serving.connections.report = [tcp, &options](uint32_t most) {
      tcp->set_max_flows(std::min(most, options.server.max_connections));
    };
  }
  auto served = serve_until_signal(**runtime, datapath, options.serving);
  return served.ok() ? *served : refuse(kFailed, served.error());
}

std::string place(const ServeOptions& options, uint16_t port) {
  return fmt::format("on {}:{}", options.server.bind, port);
}

int serve_rpc(SpinCommand& command) {
  ServeOptions& options = command.options;
  const bool udp = command.rpc.over_udp();
  const auto made_with = admission_options(options);
  if (!made_with.ok()) return refuse(kBadArguments, option_error(made_with.error()).message);
  rpc::AdmissionController admission(made_with.value());
  spin::RpcSpin application(command.spin(), admission, {.datagrams = udp});
  auto opened = open_rpc(command.rpc, options, application);
  if (!opened.ok()) return refuse(kFailed, opened.error());
  const AdmissionInService in_service(&admission, *opened->datapath, options, opened->udp);
  return serve(options, *opened->datapath, opened->tcp, application,
               "RPC over " + command.rpc.transport + " " + place(options, opened->port));
}

// The clients have credits only if the server speaks RPC.
Status finish_rpc_options(SpinCommand& command) {
  RuntimeOptions& runtime = command.options.runtime;
  if (command.rpc.spoken() && runtime.refuses_late()) {
    return Error{"--overload: --rpc takes credits, with --target-delay"};
  }
  if (command.rpc.spoken()) runtime.overload = Overload::kCredits;
  return check_rpc_options(command.rpc.spoken(), "--rpc tcp or udp", command.options);
}

int run(CommandLine& app, SpinCommand& command) {
  ServeOptions& options = command.options;
  Status finished = finish_serve_options(app, options);
  if (finished.ok()) finished = finish_rpc_options(command);
  if (!finished.ok()) return refuse(kBadArguments, finished.error());
  auto best_effort = prepare_best_effort(app, options.cores);
  if (!best_effort.ok()) return refuse(kBadArguments, option_error(best_effort.error()).message);
  options.serving.best_effort = best_effort->get();
  if (command.rpc.spoken()) return serve_rpc(command);
  spin::SpinServer application(command.spin());
  auto datapath = TcpDatapath::open(options.tcp, application);
  if (!datapath.ok()) return refuse(kFailed, datapath.error());
  return serve(options, **datapath, datapath->get(), application,
               place(options, (*datapath)->port()));
}

void add_spin(CommandLine& command) {
  auto spin = std::make_shared<SpinCommand>();
  spin->options.server.port = kDefaultPort;
  add_serve_options(command, spin->options);
  add_rpc_options(command, spin->rpc);
  add_micros(command, "--long-over", spin->long_over,
             "Requests of this service time or more are long unless they say otherwise", "10us");
  command.action([command, spin]() mutable { return run(command, *spin); });
}

const Command kSpin(
    {"serve", "spin",
     "Synthetic server: SPIN nanoseconds [SHORT|LONG] over RESP, busy for that long", add_spin});

}  // namespace
}  // namespace rubato::cli
