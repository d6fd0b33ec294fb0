// SPDX-License-Identifier: Apache-2.0
//
// Workers that take in and finish each other's datagrams, and the lines of connections beside them
// if asked, while a table moves the clients between them, over any wire. The threads run until
// end().
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "datapath/datagram_datapath.h"
#include "datapath/joint.h"
#include "datapath/tcp.h"
#include "datapath/testing/datagram_bed.h"
#include "datapath/testing/line_protocol.h"
#include "mechanism/cpu/this_worker.h"

namespace rubato::testing {

class Crowd {
 public:
  static constexpr uint32_t kWorkers = 3;

  // Sees each request of the crowd, on the worker that runs it.
  using Witness = std::function<void(const Request&)>;

  // The wire has as many queues.
  explicit Crowd(std::unique_ptr<DatagramWire> wire, bool serves_connections = false)
      : Crowd(std::move(wire), no_rules(), [](const Request&) {}, serves_connections) {}
  Crowd(std::unique_ptr<DatagramWire> wire, const DatagramRules& rules, Witness witness,
        bool serves_connections = false)
      : witness_(std::move(witness)),
        datapath_(DatagramDatapath::open(std::move(wire), protocol_, rules).value()),
        served_(datapath_.get()) {
    if (serves_connections) join_connections();
    for (uint32_t i = 0; i < kWorkers; ++i) {
      threads_.emplace_back([this, i] { run_worker(i); });
    }
    threads_.emplace_back([this] { run_mover(); });
  }
  ~Crowd() { end(); }

  void end() {
    over_.store(true, std::memory_order_relaxed);
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }
  Datapath& datapath() { return *served_; }
  // Whether its table can move them.
  bool steers() const {
    return datapath_->wire().describe().find("steered by") != std::string::npos;
  }
  uint16_t datagram_port() const { return datapath_->wire().port(); }
  uint16_t connection_port() const { return tcp_->port(); }

 private:
  static const DatagramRules& no_rules() {
    static const DatagramRules rules;
    return rules;
  }

  void join_connections() {
    TcpOptions tcp;
    tcp.queues = kWorkers;
    tcp_ = TcpDatapath::open(tcp, lines_).value();
    joint_ = JointDatapath::open(*tcp_, {datapath_.get()}).value();
    served_ = joint_.get();
  }

  void run_worker(uint32_t me) {
    set_this_worker(me);
    DatapathQueue& queue = served_->queue(WorkerId{me});
    while (!over_.load(std::memory_order_relaxed)) {
      queue.push();
      std::array<Request*, 8> burst{};
      const uint32_t n = queue.poll(burst);
      share(burst, n);
      const uint32_t helped = served_->queue(WorkerId{(me + 1) % kWorkers}).poll(burst);
      share(burst, helped);
      Request* request = steal();
      if (request == nullptr && !queue.pending()) queue.wait(Nanos::millis(1));
      while (request != nullptr) {
        witness_(*request);
        request->reply->append(request->payload);
        request = request->datapath->finish(*request);
      }
    }
    queue.push();
    set_no_worker();
  }

  void run_mover() {
    for (uint64_t i = 0; !over_.load(std::memory_order_relaxed); ++i) {
      DatagramPeer peer;  // of the group
      peer.port = static_cast<uint16_t>(i % kSteeringGroups);
      served_->steer(DatagramDatapath::flow_of(peer),
                     WorkerId{static_cast<uint32_t>(i / 7 % kWorkers)});
      static_cast<void>(served_->in_flight() + served_->stats().requests);
      std::this_thread::yield();
    }
  }

  void share(std::span<Request* const> burst, uint32_t n) {
    const std::lock_guard guard(mutex_);
    for (uint32_t i = 0; i < n; ++i) shared_.push_back(burst[i]);
  }
  Request* steal() {
    const std::lock_guard guard(mutex_);
    if (shared_.empty()) return nullptr;
    Request* const first = shared_.front();
    shared_.pop_front();
    return first;
  }

  const Witness witness_;
  EchoDatagrams protocol_;
  LineProtocol lines_;
  std::unique_ptr<DatagramDatapath> datapath_;
  std::unique_ptr<TcpDatapath> tcp_;
  std::unique_ptr<JointDatapath> joint_;
  Datapath* served_;
  std::mutex mutex_;
  std::deque<Request*> shared_;
  std::atomic<bool> over_{false};
  std::vector<std::thread> threads_;
};

}  // namespace rubato::testing
