// SPDX-License-Identifier: Apache-2.0
#include "datapath/joint.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>

#include "base/check.h"
#include "datapath/tcp_queue.h"

namespace rubato {

namespace {

void add(const DatapathStats& more, DatapathStats& sum) {
  static_assert(sizeof(DatapathStats) == 15 * sizeof(uint64_t), "one that is not added here");
  sum.flows_open += more.flows_open;
  sum.flows_accepted += more.flows_accepted;
  sum.flows_refused += more.flows_refused;
  sum.flows_timed_out += more.flows_timed_out;
  sum.flows_overflowed += more.flows_overflowed;
  sum.flows_input_limit += more.flows_input_limit;
  sum.flows_steered += more.flows_steered;
  sum.flows_unsteered += more.flows_unsteered;
  sum.flows_migrated += more.flows_migrated;
  sum.requests += more.requests;
  sum.input_bytes += more.input_bytes;
  sum.output_bytes += more.output_bytes;
  sum.zerocopy_sends += more.zerocopy_sends;
  sum.zerocopy_copied += more.zerocopy_copied;
  sum.zerocopy_refused += more.zerocopy_refused;
}

}  // namespace

class JointQueue final : public DatapathQueue {
 public:
  JointQueue(TcpQueue& tcp, std::vector<GuestQueue*> guests)
      : tcp_(tcp), guests_(std::move(guests)), all_{&tcp} {
    all_.insert(all_.end(), guests_.begin(), guests_.end());
  }

  // Set-up, before any other call.
  Status start() {
    for (GuestQueue* guest : guests_) {
      guest->join(tcp_);
      for (const int file : guest->files()) {
        if (tcp_.watch_guest(file)) continue;
        return Error{std::string("cannot watch datagrams: ") + std::strerror(errno)};
      }
    }
    return Done{};
  }

  // Who came first last time comes last now, as the first one may leave no room. A helper may poll
  // at the same time, so the turn is atomic; each queue has a lock of its own.
  uint32_t poll(std::span<Request*> out) override {
    const uint32_t turn = turn_.load(std::memory_order_relaxed);
    turn_.store(turn + 1, std::memory_order_relaxed);
    uint32_t taken = 0;
    for (size_t i = 0; i < all_.size() && taken < out.size(); ++i) {
      taken += all_[(turn + i) % all_.size()]->poll(out.subspan(taken));
    }
    return taken;
  }

  bool pending() const override {
    return std::any_of(all_.begin(), all_.end(), [](auto* queue) { return queue->pending(); });
  }

  // Requests name the queue that they came by, and are not this one's.
  Request* finish(Request& request) override {
    RUBATO_CHECK(request.datapath != this);
    return request.datapath->finish(request);
  }
  void flush(Request& request) override {
    RUBATO_CHECK(request.datapath != this);
    request.datapath->flush(request);
  }

  void push() override {
    for (GuestQueue* guest : guests_) guest->push();
  }

  // Each guest keeps its poll lock while the TCP queue sleeps for all.
  void wait(Nanos limit) override { wait(limit, {}); }
  void wait(Nanos limit, std::span<DatapathQueue* const> delegated) override {
    std::vector<DatapathQueue*> away;
    for (DatapathQueue* each : delegated) {
      auto& queue = static_cast<JointQueue&>(*each);
      for (GuestQueue* guest : queue.guests_) {
        if (!guest->lets_sleep(limit)) return;
      }
      away.push_back(&queue.tcp_);
    }
    wait_behind(0, limit, away);
  }

  void wake() override { tcp_.wake(); }

  // What wakes a guest wakes the TCP queue, and so the proxy poller.
  bool delegate_to(DatapathQueue* proxy) override { return tcp_.delegate_to(proxy); }

 private:
  void wait_behind(size_t guest, Nanos limit, std::span<DatapathQueue* const> away) {
    if (guest == guests_.size()) return tcp_.wait(limit, away);
    guests_[guest]->wait_by(
        limit, [this, guest, away](Nanos less) { wait_behind(guest + 1, less, away); });
  }

  TcpQueue& tcp_;
  const std::vector<GuestQueue*> guests_;
  std::vector<DatapathQueue*> all_;
  std::atomic<uint32_t> turn_{0};
};

JointDatapath::JointDatapath() = default;

JointDatapath::~JointDatapath() = default;

Result<std::unique_ptr<JointDatapath>> JointDatapath::open(TcpDatapath& tcp,
                                                           const std::vector<Datapath*>& guests) {
  std::unique_ptr<JointDatapath> joint(new JointDatapath());
  joint->datapaths_.push_back(&tcp);
  joint->datapaths_.insert(joint->datapaths_.end(), guests.begin(), guests.end());
  for (uint32_t i = 0; i < tcp.queues(); ++i) {
    std::vector<GuestQueue*> at_worker;
    for (Datapath* guest : guests) {
      RUBATO_CHECK(guest->queues() == tcp.queues());
      auto* const queue = dynamic_cast<GuestQueue*>(&guest->queue(WorkerId{i}));
      RUBATO_CHECK(queue != nullptr);
      at_worker.push_back(queue);
    }
    joint->queues_.push_back(std::make_unique<JointQueue>(
        static_cast<TcpQueue&>(tcp.queue(WorkerId{i})), std::move(at_worker)));
    if (Status started = joint->queues_.back()->start(); !started.ok()) {
      return Error{started.error()};
    }
  }
  return joint;
}

DatapathQueue& JointDatapath::queue(WorkerId worker) { return *queues_[worker.value]; }

template <class F>
bool JointDatapath::any(F&& does) const {
  return std::any_of(datapaths_.begin(), datapaths_.end(),
                     [&](Datapath* datapath) { return does(*datapath); });
}

Nanos JointDatapath::begin_drain() {
  Nanos longest;
  for (Datapath* datapath : datapaths_) longest = std::max(longest, datapath->begin_drain());
  return longest;
}

void JointDatapath::drain() {
  for (Datapath* datapath : datapaths_) datapath->drain();
}

uint64_t JointDatapath::in_flight() const {
  uint64_t sum = 0;
  for (const Datapath* datapath : datapaths_) sum += datapath->in_flight();
  return sum;
}

DatapathStats JointDatapath::stats() const {
  DatapathStats sum;
  for (const Datapath* datapath : datapaths_) add(datapath->stats(), sum);
  return sum;
}

void JointDatapath::for_each_flow(const std::function<void(const FlowInfo&)>& visit) {
  for (Datapath* datapath : datapaths_) datapath->for_each_flow(visit);
}

bool JointDatapath::close_flow(uint64_t flow) {
  return any([&](Datapath& datapath) { return datapath.close_flow(flow); });
}

bool JointDatapath::steer(uint64_t flow, WorkerId to) {
  return any([&](Datapath& datapath) { return datapath.steer(flow, to); });
}

bool JointDatapath::unsteer(uint64_t flow) {
  return any([&](Datapath& datapath) { return datapath.unsteer(flow); });
}

bool JointDatapath::request_push(uint64_t flow) {
  return any([&](Datapath& datapath) { return datapath.request_push(flow); });
}

}  // namespace rubato
