// SPDX-License-Identifier: Apache-2.0
#include "datapath/tcp.h"

#include <algorithm>

#include "datapath/tcp_queue.h"
#include "datapath/time_source.h"
#include "mechanism/preempt/checkpoint.h"

namespace rubato {
namespace {

// One listener per queue, on a free address that they share; `port` is then the port of it.
Result<std::vector<Fd>> listeners(const TcpOptions& options, uint16_t& port) {
  const Result<SocketAddress> wanted = resolve(options.bind, port);
  if (!wanted.ok()) return Error{wanted.error()};
  const Result<SocketAddress> address = claim_address(wanted.value());
  if (!address.ok()) return Error{address.error()};
  port = address.value().port();
  std::vector<Fd> all;
  for (uint32_t i = 0; i < options.queues; ++i) {
    Result<Fd> one = listen_on(address.value(), {options.backlog, options.kernel_timestamps});
    if (!one.ok()) return Error{one.error()};
    if (!options.cpus.empty()) {
      if (Status set = set_incoming_cpu(one->get(), options.cpus[i]); !set.ok()) {
        return Error{set.error()};
      }
    }
    all.push_back(std::move(one).value());
  }
  return all;
}

constexpr Nanos kFirstRequest = Nanos::millis(100);

// The queues share the one listener that was handed over.
Result<std::vector<Fd>> shares_of(int listener, const TcpOptions& options) {
  if (!options.cpus.empty()) {
    return Error{"incoming_cpu: does not go with a listener that was handed over, which is one "
                 "for all workers"};
  }
  std::vector<Fd> all;
  for (uint32_t i = 0; i < options.queues; ++i) {
    Result<Fd> one = share_listener(listener, options.kernel_timestamps);
    if (!one.ok()) return Error{one.error()};
    all.push_back(std::move(one).value());
  }
  return all;
}

// -1 = none.
int handed_over_for(const TcpOptions& options, uint16_t port) {
  for (const int listener : options.handed_over) {
    if (port != 0 && local_address(listener).port() == port) return listener;
  }
  return -1;
}

}  // namespace

TcpDatapath::Shared::Shared(TcpOptions options_in, Protocol& protocol_in)
    : options(std::move(options_in)),
      protocol(protocol_in),
      max_flows(options.max_flows),
      idle_timeout_ns(options.idle_timeout.count()) {}

TcpDatapath::TcpDatapath(TcpOptions options, Protocol& protocol)
    : shared_(std::move(options), protocol) {}

TcpDatapath::~TcpDatapath() = default;

Result<std::unique_ptr<TcpDatapath>> TcpDatapath::open(TcpOptions options, Protocol& protocol) {
  if (options.queues == 0 || options.queues > limits::kMaxWorkers) {
    return Error{"queues must be 1 to " + std::to_string(limits::kMaxWorkers)};
  }
  std::unique_ptr<TcpDatapath> datapath(new TcpDatapath(std::move(options), protocol));
  const Status started = datapath->start();
  if (!started.ok()) return Error{started.error()};
  return datapath;
}

Status TcpDatapath::start() {
  const TcpOptions& options = shared_.options;
  ports_.push_back(options.port);
  for (const TcpPort& more : options.more_ports) ports_.push_back(more.port);
  for (const int listener : options.handed_over) {
    const SocketAddress address = local_address(listener);
    if (std::find(ports_.begin(), ports_.end(), address.port()) != ports_.end()) continue;
    return Error{"was given a listener on " + to_text(address) + ", which is none of its ports"};
  }
  std::vector<std::vector<Fd>> of_queue(options.queues);
  // The ports are claimed one after the other, so that no two get the same.
  for (uint16_t& port : ports_) {
    const int given = handed_over_for(options, port);
    Result<std::vector<Fd>> heard = given >= 0 ? shares_of(given, options)
                                               : listeners(options, port);
    if (!heard.ok()) return Error{heard.error()};
    for (uint32_t i = 0; i < options.queues; ++i) of_queue[i].push_back(std::move((*heard)[i]));
  }
  for (uint32_t i = 0; i < options.queues; ++i) {
    queues_.push_back(std::make_unique<TcpQueue>(shared_));
    const Status started = queues_.back()->start(std::move(of_queue[i]));
    if (!started.ok()) return started;
  }
  make_room_for_descriptors(options.max_flows);
  return Done{};
}

void TcpDatapath::set_max_flows(uint32_t flows) {
  if (flows > shared_.max_flows.exchange(flows, std::memory_order_relaxed)) {
    make_room_for_descriptors(flows);
  }
}

uint32_t TcpDatapath::queues() const { return static_cast<uint32_t>(queues_.size()); }

bool TcpDatapath::sends_in_place() const { return queues_.front()->sends_in_place(); }

DatapathQueue& TcpDatapath::queue(WorkerId worker) { return *queues_[worker.value]; }

Nanos TcpDatapath::begin_drain() {
  if (shared_.options.handed_over.empty()) return {};
  shared_.leaving.store(true, std::memory_order_relaxed);
  for (auto& queue : queues_) queue->wake();
  return kFirstRequest;
}

void TcpDatapath::drain() {
  if (!shared_.draining.set()) return;
  for (auto& queue : queues_) queue->drain();
}

uint64_t TcpDatapath::in_flight() const {
  uint64_t sum = 0;
  for (const auto& queue : queues_) sum += queue->registry().in_flight();
  return sum;
}

DatapathStats TcpDatapath::stats() const {
  DatapathStats stats;
  for (const auto& queue : queues_) queue->add_to(stats);
  return stats;
}

void TcpDatapath::for_each_flow(const std::function<void(const FlowInfo&)>& visit) {
  const Instant now = datapath_now();
  for (const auto& queue : queues_) {
    const auto show = [&](StreamFlow& flow) {
      if (flow.state() == FlowState::kClosing) return;
      FlowInfo info = FlowRegistry::describe(flow, now);
      info.fd = static_cast<TcpFlow&>(flow).fd();
      info.local = local_text(info.fd);
      visit(info);
    };
    queue->registry().visit_in_turns(show, [] { checkpoint(); });
  }
}

bool TcpDatapath::close_flow(uint64_t flow_id) {
  return shared_.index.close(flow_id);
}

bool TcpDatapath::steer(uint64_t flow, WorkerId to) {
  if (to.value >= queues_.size() || shared_.draining.is_set()) return false;
  return shared_.index.steer(flow, &queues_[to.value]->host());
}

bool TcpDatapath::unsteer(uint64_t flow) {
  if (shared_.draining.is_set()) return false;
  return shared_.index.steer(flow, nullptr);
}

bool TcpDatapath::request_push(uint64_t flow) {
  return shared_.index.visit(flow, [](StreamFlow& found) {
    found.request_push();
    return true;
  });
}

}  // namespace rubato
