// SPDX-License-Identifier: Apache-2.0
//
// `rubato serve spin`: the synthetic server (apps/spin_server) on TCP.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "cli/command.h"
#include "serve_options.h"
#include "runtime/runtime.h"
#include "spin_server/spin_server.h"

namespace rubato::cli {
namespace {

constexpr uint16_t kDefaultPort = 7379;

struct SpinCommand {
  ServeOptions options;
  double long_from_us = 10;
};

int refuse(int status, const std::string& message) {
  std::fprintf(stderr, "rubato serve spin: %s\n", message.c_str());
  return status;
}

int run(CLI::App& command, SpinCommand& spin) {
  ServeOptions& options = spin.options;
  Status finished = finish_serve_options(command, options);
  if (!finished.ok()) return refuse(kBadArguments, finished.error());
  spin::SpinServer application({Nanos::from_micros(spin.long_from_us), Nanos::seconds(10)});
  auto datapath = TcpDatapath::open(options.tcp, application);
  if (!datapath.ok()) return refuse(kFailed, datapath.error());
  auto runtime = Runtime::create(options.runtime, **datapath, application);
  if (!runtime.ok()) return refuse(kBadArguments, option_error(runtime.error()).message);
  options.serving.types = 3;
  options.serving.type_name = [](uint32_t type) {
    return std::string(type == spin::kShort ? "short" : type == spin::kLong ? "long" : "control");
  };
  options.serving.recording.is_control = [](uint32_t type) { return type == spin::kControl; };
  options.serving.announcement =
      fmt::format("rubato serve spin: policy {}, {} worker(s), {}, on {}:{}",
                  options.runtime.policy, options.runtime.workers, preemption_text(options),
                  options.tcp.bind, (*datapath)->port());
  options.serving.connections = options.tcp.max_flows;
  auto served = serve_until_signal(**runtime, **datapath, options.serving);
  return served.ok() ? *served : refuse(kFailed, served.error());
}

void add_spin(CLI::App& parent, int& status) {
  CLI::App* command = parent.add_subcommand(
      "spin", "Synthetic server: SPIN nanoseconds [SHORT|LONG] over RESP, busy for that long");
  auto spin = std::make_shared<SpinCommand>();
  spin->options.tcp.port = kDefaultPort;
  add_serve_options(*command, spin->options);
  command->add_option("--long-from-us", spin->long_from_us,
                      "Requests from this service time on are long unless they say otherwise")
      ->capture_default_str();
  command->callback([command, spin, &status] { status = run(*command, *spin); });
}

const Command kSpin("serve", "spin", add_spin);

}  // namespace
}  // namespace rubato::cli
