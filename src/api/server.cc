// SPDX-License-Identifier: Apache-2.0
#include "api/server.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "api/figures.h"
#include "api/versioned.h"
#include "rpc/exposition.h"
#include "runtime/exposition.h"
#include "runtime/state_json.h"
#include "runtime/stop_signals.h"
#include "runtime/worker_stats.h"

using rubato::Done;
using rubato::Error;
using rubato::LoopbackDatapath;
using rubato::Nanos;
using rubato::Result;
using rubato::Status;
using rubato::TcpDatapath;

namespace {

// A bound, since these connections use descriptors of the application's process; a new connection
// beyond it takes the place of a silent one.
constexpr size_t kMetricsConnections = 32;

}  // namespace

rubato_server::rubato_server(rubato::api::Setup setup, const rubato_application& application)
    : setup_(std::move(setup)),
      service_(application, setup_.max_request_bytes, setup_.max_reply_bytes, setup_.admission) {}

Result<std::unique_ptr<rubato_server>> rubato_server::create(
    const rubato_options* options, const rubato_application* application) {
  auto setup = rubato::api::read_options(options);
  if (!setup.ok()) return Error{setup.error()};
  rubato_application defaults{};
  auto read = rubato::api::read_versioned(application, defaults, "application");
  if (!read.ok()) return Error{read.error()};
  Status good = rubato::api::Service::check(read.value());
  if (!good.ok()) return Error{good.error()};
  if (setup->runtime.foreign_runtime && read->loop != nullptr) {
    return Error{"foreign_runtime: takes handle or process, not loop, which runs on fibers"};
  }
  const bool rpc = read->framing == RUBATO_FRAMING_RPC;
  if (rpc && setup->runtime.refuses_late()) {
    return Error{
        "overload: RUBATO_FRAMING_RPC takes credits, with rpc_target_delay, in place of aqm"};
  }
  if (!rpc && setup->runtime.overload == rubato::Overload::kCredits) {
    return Error{"overload: credits needs RUBATO_FRAMING_RPC"};
  }
  if (rpc) setup->speak_rpc();
  std::unique_ptr<rubato_server> server(new rubato_server(std::move(*setup), read.value()));
  good = server->open();
  if (!good.ok()) return Error{good.error()};
  return server;
}

Status rubato_server::open() {
  if (setup_.loopback) {
    auto loopback = std::make_unique<LoopbackDatapath>(setup_.wire, service_);
    loopback_ = loopback.get();
    datapath_ = std::move(loopback);
  } else {
    auto tcp = TcpDatapath::open(setup_.tcp, service_);
    if (!tcp.ok()) return Error{tcp.error()};
    tcp_ = tcp.value().get();
    datapath_ = std::move(*tcp);
  }
  rubato::RuntimeOptions options = setup_.runtime;
  if (service_.admission() != nullptr) {
    attached_.emplace(*service_.admission(), *datapath_);
    options.credits = service_.admission();
  }
  auto runtime = rubato::Runtime::create(options, *datapath_, service_);
  if (!runtime.ok()) return Error{runtime.error()};
  runtime_ = std::move(*runtime);
  recorders_.open(setup_.recorders, *runtime_, *datapath_, types());
  if (service_.has_loop()) runtime_->set_server_loop([this] { service_.run_loop(); });
  return Done{};
}

Result<bool> rubato_server::run() {
  if (has_run_.exchange(true)) return Error{"run: a server runs once; create another one"};
  if (Status good = service_.init(); !good.ok()) return Error{good.error()};
  if (Status good = start_metrics(); !good.ok()) return Error{good.error()};
  if (Status good = start_agent(); !good.ok()) return Error{good.error()};
  std::unique_ptr<rubato::StopSignals> signals;
  if (setup_.handle_signals) {
    auto installed = rubato::StopSignals::install(*runtime_);
    if (!installed.ok()) return Error{installed.error()};
    signals = std::move(*installed);
  }
  // Last, so that what fails leaves no file.
  if (Status good = recorders_.begin(); !good.ok()) return Error{good.error()};
  auto drained = runtime_->run();
  recorders_.close();
  return drained;
}

Status rubato_server::start_metrics() {
  if (setup_.metrics_port < 0) return Done{};
  auto started = rubato::Exporter::start(
      setup_.metrics_bind, static_cast<uint16_t>(setup_.metrics_port),
      {[this](rubato::OpenMetrics& out) { expose(out); },
       [this] { return runtime_->serving(); },
       [this] { return rubato::plan_text(*runtime_, types()); },
       {}, {},
       [this] { return rubato::state_json(*runtime_, *datapath_, types()); }},
      {.connections = kMetricsConnections});
  if (!started.ok()) return Error{started.error()};
  exporter_ = std::move(*started);
  metrics_port_.store(exporter_->port(), std::memory_order_relaxed);
  return Done{};
}

Status rubato_server::start_agent() {
  if (setup_.agent_port < 0) return Done{};
  auto started = rubato::AgentPort::start(setup_.agent_bind,
                                          static_cast<uint16_t>(setup_.agent_port), *runtime_);
  if (!started.ok()) return Error{started.error()};
  agent_ = std::move(*started);
  agent_port_.store(agent_->port(), std::memory_order_relaxed);
  return Done{};
}

rubato::ExposedTypes rubato_server::types() const {
  return {[this](uint32_t type) { return service_.type_name(type); }, rubato::kRequestTypes};
}

void rubato_server::expose(rubato::OpenMetrics& out) {
  rubato::expose(out, *runtime_, *datapath_, types(), named_types_);
  out.family("rubato_failed", "counter", "Requests that the application failed.");
  out.counter(service_.failed());
  out.family("rubato_malformed", "counter", "Requests that were malformed or too large.");
  out.counter(service_.malformed());
  if (service_.admission() != nullptr) rubato::rpc::expose(out, *service_.admission());
  recorders_.expose(out);
}

rubato_stats rubato_server::stats() const {
  const rubato::DatapathStats datapath = datapath_->stats();
  rubato_stats stats = rubato::api::stats_of(*runtime_);
  stats.failed = service_.failed();
  stats.malformed = service_.malformed();
  stats.connections = datapath.flows_open;
  stats.connections_accepted = datapath.flows_accepted;
  stats.connections_refused = datapath.flows_refused;
  stats.input_bytes = datapath.input_bytes;
  stats.output_bytes = datapath.output_bytes;
  return stats;
}

rubato_times rubato_server::latency(uint32_t type) const {
  return rubato::api::times_of(runtime_->latency(type));
}

rubato_times rubato_server::service(uint32_t type) const {
  return rubato::api::times_of(runtime_->service(type));
}

size_t rubato_server::loopback_receive(uint64_t flow, char* to, size_t size, Nanos limit) {
  std::string got;
  {
    const std::scoped_lock lock(leftovers_mutex_);
    got = std::exchange(leftovers_[flow], {});
  }
  if (got.size() < size) got += loopback_->receive(flow, size - got.size(), limit);
  const size_t taken = std::min(size, got.size());
  std::memcpy(to, got.data(), taken);
  if (taken < got.size()) {
    const std::scoped_lock lock(leftovers_mutex_);
    leftovers_[flow] = got.substr(taken);
  }
  return taken;
}

void rubato_server::loopback_close(uint64_t flow) {
  loopback_->forget(flow);
  const std::scoped_lock lock(leftovers_mutex_);
  leftovers_.erase(flow);
}
