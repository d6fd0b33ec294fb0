// SPDX-License-Identifier: Apache-2.0
#include "datapath/loopback.h"

#include <algorithm>
#include <mutex>

#include "datapath/loopback_queue.h"
#include "mechanism/preempt/checkpoint.h"

namespace rubato {

LoopbackDatapath::LoopbackDatapath(LoopbackOptions options, Protocol& protocol)
    : shared_{std::move(options), protocol} {
  RUBATO_CHECK(shared_.options.queues > 0 && shared_.options.queues <= limits::kMaxWorkers);
  for (uint32_t i = 0; i < shared_.options.queues; ++i) {
    queues_.push_back(std::make_unique<LoopbackQueue>(shared_, i));
  }
}

LoopbackDatapath::~LoopbackDatapath() = default;

uint64_t LoopbackDatapath::connect() {
  const uint64_t next = next_flow_.load(std::memory_order_relaxed);
  return connect(WorkerId{static_cast<uint32_t>((next - 1) % queues_.size())});
}

uint64_t LoopbackDatapath::connect(WorkerId queue) {
  std::shared_ptr<LoopbackWire> wire;
  {
    std::lock_guard lock(wires_mutex_);
    if (wires_.size() >= shared_.options.max_flows ||
        shared_.draining.is_set()) {
      refused_.fetch_add(1, std::memory_order_relaxed);
      return 0;
    }
    const uint64_t flow = next_flow_.fetch_add(1, std::memory_order_relaxed);
    wire = std::make_shared<LoopbackWire>(flow, *queues_[queue.value], shared_.options.wire_bytes);
    wires_.emplace(flow, wire);
  }
  LoopbackQueue::raise(wire);
  return wire->id();
}

std::shared_ptr<LoopbackWire> LoopbackDatapath::find(uint64_t flow) const {
  std::shared_lock lock(wires_mutex_);
  const auto at = wires_.find(flow);
  return at == wires_.end() ? nullptr : at->second;
}

bool LoopbackDatapath::submit(uint64_t flow, std::string_view bytes) {
  const std::shared_ptr<LoopbackWire> wire = find(flow);
  if (wire == nullptr) return false;
  bool full = false;
  if (!wire->reserve(bytes.size(), full)) {
    if (full) wire->owner_queue().count_refused();
    return false;
  }
  wire->owner_queue().send(wire, bytes);
  return true;
}

bool LoopbackDatapath::finish_sending(uint64_t flow) {
  const std::shared_ptr<LoopbackWire> wire = find(flow);
  if (wire == nullptr) return false;
  wire->owner_queue().send_end(wire);
  return true;
}

bool LoopbackDatapath::take(uint64_t flow, std::string& to) {
  const std::shared_ptr<LoopbackWire> wire = find(flow);
  if (wire == nullptr) return false;
  bool resumed = false;
  const bool more = wire->take(to, resumed);
  if (resumed) LoopbackQueue::raise(wire);
  return more;
}

std::string LoopbackDatapath::receive(uint64_t flow, size_t size_bytes, Nanos limit) {
  std::string got;
  const Instant deadline = datapath_now() + limit;
  while (got.size() < size_bytes && datapath_now() < deadline) {
    const std::shared_ptr<LoopbackWire> wire = find(flow);
    if (wire == nullptr) break;
    wire->await(size_bytes - got.size(), deadline - datapath_now());
    if (!take(flow, got)) break;
  }
  return got;
}

bool LoopbackDatapath::closed(uint64_t flow) const {
  const std::shared_ptr<LoopbackWire> wire = find(flow);
  return wire == nullptr || wire->closed();
}

void LoopbackDatapath::forget(uint64_t flow) {
  std::shared_ptr<LoopbackWire> wire;
  {
    std::lock_guard lock(wires_mutex_);
    const auto at = wires_.find(flow);
    if (at == wires_.end()) return;
    wire = std::move(at->second);
    wires_.erase(at);
  }
  wire->reset();
  LoopbackQueue::raise(wire);
}

LoopbackFaults LoopbackDatapath::faults() const {
  LoopbackFaults sum;
  for (const auto& queue : queues_) queue->add_to(sum);
  return sum;
}

uint32_t LoopbackDatapath::queues() const { return static_cast<uint32_t>(queues_.size()); }

DatapathQueue& LoopbackDatapath::queue(WorkerId worker) { return *queues_[worker.value]; }

void LoopbackDatapath::drain() {
  if (!shared_.draining.set()) return;
  for (auto& queue : queues_) queue->wake();
}

uint64_t LoopbackDatapath::in_flight() const {
  uint64_t sum = 0;
  for (const auto& queue : queues_) sum += queue->registry().in_flight();
  return sum;
}

DatapathStats LoopbackDatapath::stats() const {
  DatapathStats stats;
  for (const auto& queue : queues_) queue->add_to(stats);
  stats.flows_refused += refused_.load(std::memory_order_relaxed);
  return stats;
}

void LoopbackDatapath::for_each_flow(const std::function<void(const FlowInfo&)>& visit) {
  const Instant now = shared_.options.now();
  for (const auto& queue : queues_) {
    const auto show = [&](StreamFlow& flow) {
      if (flow.state() != FlowState::kClosing) visit(FlowRegistry::describe(flow, now));
    };
    queue->registry().visit_in_turns(show, [] { checkpoint(); });
  }
}

bool LoopbackDatapath::close_flow(uint64_t flow_id) { return shared_.index.close(flow_id); }

bool LoopbackDatapath::steer(uint64_t flow, WorkerId to) {
  if (to.value >= queues_.size() || shared_.draining.is_set()) return false;
  return shared_.index.steer(flow, &queues_[to.value]->host());
}

bool LoopbackDatapath::unsteer(uint64_t flow) {
  if (shared_.draining.is_set()) return false;
  return shared_.index.steer(flow, nullptr);
}

bool LoopbackDatapath::request_push(uint64_t flow) {
  return shared_.index.visit(flow, [](StreamFlow& found) {
    found.request_push();
    return true;
  });
}

}  // namespace rubato
