// SPDX-License-Identifier: Apache-2.0
//
// `rubato serve spin`: the synthetic server (apps/spin_server) on TCP and on datagrams.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string_view>

#include "cli/common/command_registry.h"
#include "cli/common/value_flags.h"
#include "cli/serve/rpc_service.h"
#include "cli/serve/serve_program.h"
#include "datapath/datagram_datapath.h"
#include "datapath/datagram_exposition.h"
#include "datapath/net_worker.h"
#include "runtime/runtime.h"
#include "spin_server/datagram_spin.h"
#include "spin_server/rpc_spin.h"
#include "spin_server/spin_server.h"

namespace rubato::cli {
namespace {

constexpr uint16_t kDefaultPort = 7379;

class SpinCommand final : public ServeProgram {
 public:
  SpinCommand() { options().server.port = kDefaultPort; }

  const char* name() const override { return "spin"; }
  void declare(CommandLine& command) override;
  Status check() override;
  Ports ports() const override { return {{"--port", static_cast<int>(options().server.port)}}; }
  std::unique_ptr<ServeProgram> another() const override { return std::make_unique<SpinCommand>(); }
  int serve(Reloader& reloader) override;

 private:
  int serve_rpc(Reloader& reloader);
  int serve_datagrams(Reloader& reloader);
  // `tcp` is the datapath if connections are files, else null.
  int serve(Reloader& reloader, Datapath& network, TcpDatapath* tcp, Application& application,
            const std::string& where);
  void expose_net_worker(const NetWorkerDatapath& net_worker);
  std::string place(uint16_t port) const {
    return fmt::format("on {}:{}", options().server.bind, port);
  }
  spin::SpinOptions spin() const { return {long_over_, Nanos::seconds(10)}; }

  bool receives_datagrams() const { return udp_ || rpc_.over_udp(); }

  RpcServeOptions rpc_;
  WireOptions wire_;
  bool udp_ = false;  // plain datagrams
  bool net_worker_ = false;
  Nanos long_over_ = Nanos::micros(10);
};

// The options that a running server can change.
void apply_live(Reloader& reloader, Runtime& runtime, TcpDatapath* tcp) {
  reloader.can_apply("log-slow", [&runtime](const ServeProgram& loaded) -> Status {
    runtime.settings().set_slow_threshold(loaded.options().log.slow_threshold());
    return Done{};
  });
  reload_scheduler(reloader, runtime);
  if (tcp == nullptr) return;
  reloader.can_apply("max-connections", [tcp](const ServeProgram& loaded) -> Status {
    tcp->set_max_flows(loaded.options().server.max_connections);
    return Done{};
  });
  reloader.can_apply("idle-timeout", [tcp](const ServeProgram& loaded) -> Status {
    tcp->set_idle_timeout(loaded.options().server.idle_timeout);
    return Done{};
  });
}

// Its figures come behind those of the datapath.
void SpinCommand::expose_net_worker(const NetWorkerDatapath& net_worker) {
  options().serving.more_metrics = [&net_worker, network = options().serving.more_metrics](
                                       OpenMetrics& out) {
    if (network) network(out);
    net_worker.expose(out);
  };
}

int SpinCommand::serve(Reloader& reloader, Datapath& network, TcpDatapath* tcp,
                       Application& application, const std::string& where) {
  ServeOptions& options = this->options();
  if (receives_datagrams()) {
    if (Status given = give_up_wire_capabilities(wire_); !given.ok()) {
      return refuse(*this, kFailed, given.error());
    }
  }
  options.runtime.slow_threshold = options.log.slow_threshold();
  std::unique_ptr<NetWorkerDatapath> net_worker;
  if (net_worker_) {
    auto opened = NetWorkerDatapath::open(network);
    if (!opened.ok()) return refuse(*this, kFailed, opened.error());
    net_worker = std::move(*opened);
    expose_net_worker(*net_worker);
  }
  Datapath& datapath = net_worker_ ? *net_worker : network;
  auto runtime = Runtime::create(options.runtime, datapath, application);
  if (!runtime.ok()) return refuse(*this, kBadArguments, option_error(runtime.error()).message);
  apply_live(reloader, **runtime, tcp);
  options.serving.types = spin::kTypes;
  options.serving.type_name = [](uint32_t type) { return std::string(spin::type_name(type)); };
  options.serving.recording.is_control = [](uint32_t type) { return type == spin::kControl; };
  RequestFeed requests((*runtime)->request_rings());
  const auto recorders = start_recorders(options, **runtime, requests, reloader);
  if (!recorders.ok()) return refuse(*this, kFailed, recorders.error());
  const auto otlp = open_otlp(*this, options.serving, requests);
  if (!otlp.ok()) return refuse(*this, kFailed, otlp.error());
  options.serving.announcement =
      fmt::format("rubato serve spin: policy {}, {} worker(s), {}, {}", options.runtime.policy,
                  options.runtime.workers, preemption_text(options),
                  net_worker_ ? "a net worker, " + where : where);
  if (tcp != nullptr) {
    warn_of_copies(options, *tcp);
    options.serving.connections.wanted = options.server.max_connections;
    options.serving.connections.report = [tcp, &options](uint32_t most) {
      tcp->set_max_flows(std::min(most, options.server.max_connections));
    };
  }
  auto served = serve_until_signal(**runtime, datapath, options.serving);
  return served.ok() ? *served : refuse(*this, kFailed, served.error());
}

int SpinCommand::serve_rpc(Reloader& reloader) {
  const bool udp = rpc_.over_udp();
  const auto made_with = admission_options(options());
  if (!made_with.ok()) return refuse(*this, kBadArguments, option_error(made_with.error()).message);
  rpc::AdmissionController admission(made_with.value());
  spin::RpcSpin application(spin(), admission, {.datagrams = udp});
  auto opened = open_rpc(rpc_, wire_, options(), application);
  if (!opened.ok()) return refuse(*this, kFailed, opened.error());
  const AdmissionInService in_service(&admission, *opened->datapath, options(), opened->udp);
  if (udp) {
    options().serving.each_second = [over = opened->udp] { over->wire().look_at_link(); };
  }
  const std::string over = udp ? opened->udp->wire().describe() : rpc_.transport;
  return serve(reloader, *opened->datapath, opened->tcp, application,
               "RPC over " + over + " " + place(opened->port));
}

int SpinCommand::serve_datagrams(Reloader& reloader) {
  spin::DatagramSpin application(spin(), wire_.keeps_order);
  auto wire = open_wire(wire_, options(), options().tcp.port);
  if (!wire.ok()) return refuse(*this, kFailed, wire.error());
  auto datapath = DatagramDatapath::open(std::move(*wire), application, application);
  if (!datapath.ok()) return refuse(*this, kFailed, datapath.error());
  DatagramDatapath& opened = **datapath;
  options().serving.more_metrics = [&opened](OpenMetrics& out) {
    expose(out, opened.wire().drops(), opened.drops());
  };
  options().serving.each_second = [&opened] { opened.wire().look_at_link(); };
  return serve(reloader, opened, nullptr, application,
               "datagrams over " + opened.wire().describe() + " " + place(opened.wire().port()));
}

// The option that is for TCP alone; null = none is given.
const char* option_of_tcp(const ServeOptions& options) {
  if (!options.handover.empty()) return "--handover";
  if (options.server.incoming_cpu) return "--incoming-cpu";
  return options.server.zerocopy_above > 0 ? "--zerocopy-above" : nullptr;
}

// The clients have credits if the server speaks RPC, whatever else limits it.
Status SpinCommand::check() {
  RuntimeOptions& runtime = options().runtime;
  if (rpc_.spoken() && runtime.refuses_late()) {
    return Error{"--overload: --rpc takes credits, with --target-delay, in place of aqm"};
  }
  const char* const tcp_only = option_of_tcp(options());
  if (receives_datagrams() && tcp_only != nullptr) {
    return Error{std::string(tcp_only) + ": is for TCP, not for --udp or --rpc udp"};
  }
  if (receives_datagrams() && options().server.busy_poll > Nanos() && !wire_.over_xdp()) {
    return Error{"--busy-poll: is for TCP and for --datapath af_xdp:IFACE"};
  }
  if (udp_ && rpc_.spoken()) return Error{"--udp: does not go with --rpc"};
  if (net_worker_ && rpc_.spoken()) return Error{"--net-worker: does not go with --rpc"};
  if (net_worker_ && options().server.incoming_cpu) {
    return Error{"--net-worker: does not go with --incoming-cpu, as it receives for all workers"};
  }
  if (net_worker_ && runtime.allocates_cores()) {
    return Error{"--net-worker: does not go with --cores, as it takes the arrivals of all workers"};
  }
  Status good = check_wire_options(receives_datagrams(), wire_, "--udp or --rpc udp");
  if (good.ok()) good = check_order(udp_, wire_, "--udp");
  if (!good) return good;
  if (rpc_.spoken() && !runtime.has_limiter()) runtime.overload = Overload::kCredits;
  return check_rpc_options(rpc_.spoken(), "--rpc tcp or udp", options());
}

int SpinCommand::serve(Reloader& reloader) {
  ServeOptions& options = this->options();
  auto best_effort = prepare_best_effort(options.cores);
  if (!best_effort.ok()) {
    return refuse(*this, kBadArguments, option_error(best_effort.error()).message);
  }
  options.serving.best_effort = best_effort->get();
  if (rpc_.spoken()) return serve_rpc(reloader);
  if (udp_) return serve_datagrams(reloader);
  spin::SpinServer application(spin());
  auto datapath = TcpDatapath::open(options.tcp, application);
  if (!datapath.ok()) return refuse(*this, kFailed, datapath.error());
  return serve(reloader, **datapath, datapath->get(), application, place((*datapath)->port()));
}

void SpinCommand::declare(CommandLine& command) {
  add_serve_options(command, options());
  add_rpc_options(command, rpc_);
  command.add_flag("--udp", udp_,
                   "Take each request as a datagram of its own instead of RESP over TCP "
                   "(docs/DATAPATHS.md)");
  add_wire_options(command, wire_);
  command.add_flag("--net-worker", net_worker_,
                   "Receive by a thread of its own, which queues requests by type and hands them "
                   "to the workers, as Persephone's net worker does (docs/DATAPATHS.md)");
  add_micros(command, "--long-over", long_over_,
             "Requests of this service time or more are long unless they say otherwise", "10us");
}

void add_spin(CommandLine& command) {
  auto spin = std::make_shared<SpinCommand>();
  spin->declare(command);
  command.action([command, spin]() mutable { return run_program(command, *spin); });
}

const Command kSpin(
    {"serve", "spin",
     "Serve SPIN nanoseconds [SHORT|LONG] [TYPE] over RESP: be busy for that long", add_spin});

}  // namespace
}  // namespace rubato::cli
