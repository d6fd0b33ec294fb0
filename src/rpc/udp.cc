// SPDX-License-Identifier: Apache-2.0
#include "rpc/udp.h"

#include <random>
#include <utility>

#include "datapath/time_source.h"
#include "mechanism/preempt/checkpoint.h"
#include "rpc/udp_queue.h"

namespace rubato::rpc {
namespace {

SipHash::Key random_key() {
  std::random_device device;
  const auto word = [&] { return uint64_t{device()} << 32 | device(); };
  return {word(), word()};
}

}  // namespace

UdpDatapath::Shared::Shared(std::unique_ptr<DatagramWire> wire_in, const UdpOptions& options_in,
                            Protocol& protocol_in)
    : wire(std::move(wire_in)),
      limits(options_in.limits),
      protocol(protocol_in),
      max_flows(options_in.max_flows),
      next_flow(options_in.first_flow),
      token_of(random_key()) {
  set_idle_timeout(options_in.idle_timeout);
}

UdpDatapath::UdpDatapath(std::unique_ptr<DatagramWire> wire, const UdpOptions& options,
                         Protocol& protocol)
    : shared_(std::move(wire), options, protocol) {}

UdpDatapath::~UdpDatapath() = default;

Result<std::unique_ptr<UdpDatapath>> UdpDatapath::open(std::unique_ptr<DatagramWire> wire,
                                                       const UdpOptions& options,
                                                       Protocol& protocol) {
  std::unique_ptr<UdpDatapath> datapath(new UdpDatapath(std::move(wire), options, protocol));
  UdpDatapath::Shared& shared = datapath->shared_;
  for (uint32_t i = 0; i < shared.wire->queues(); ++i) {
    datapath->queues_.push_back(std::make_unique<UdpQueue>(shared, WorkerId{i}));
    const Status started = datapath->queues_.back()->start();
    if (!started.ok()) return Error{started.error()};
  }
  return datapath;
}

uint32_t UdpDatapath::queues() const { return static_cast<uint32_t>(queues_.size()); }

DatapathQueue& UdpDatapath::queue(WorkerId worker) { return *queues_[worker.value]; }

void UdpDatapath::drain() {
  if (!shared_.draining.set()) return;
  for (auto& queue : queues_) queue->wake();
}

uint64_t UdpDatapath::in_flight() const {
  uint64_t sum = 0;
  for (const auto& queue : queues_) sum += queue->registry().in_flight();
  return sum + shared_.wire->unsent();
}

DatapathStats UdpDatapath::stats() const {
  DatapathStats stats;
  for (const auto& queue : queues_) queue->add_to(stats);
  return stats;
}

UdpDrops UdpDatapath::drops() const {
  UdpDrops drops;
  for (const auto& queue : queues_) queue->add_to(drops);
  return drops;
}

void UdpDatapath::for_each_flow(const std::function<void(const FlowInfo&)>& visit) {
  const Instant now = datapath_now();
  for (const auto& queue : queues_) {
    const auto show = [&](StreamFlow& flow) {
      if (flow.state() != FlowState::kClosing) visit(FlowRegistry::describe(flow, now));
    };
    queue->registry().visit_in_turns(show, [] { checkpoint(); });
  }
}

bool UdpDatapath::close_flow(uint64_t flow_id) { return shared_.index.close(flow_id); }

bool UdpDatapath::request_push(uint64_t flow) {
  return shared_.index.visit(flow, [](StreamFlow& found) {
    found.request_push();
    return true;
  });
}

}  // namespace rubato::rpc
