// SPDX-License-Identifier: Apache-2.0
//
// Workers that take in and finish each other's datagrams while a table moves the clients between
// them.
#include <gtest/gtest.h>
#include <sys/time.h>

#include <atomic>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "datapath/datagram_datapath.h"
#include "datapath/tcp_socket.h"
#include "datapath/testing/datagram_bed.h"
#include "datapath/udp_wire.h"
#include "mechanism/cpu/this_worker.h"

namespace rubato::testing {
namespace {

constexpr uint32_t kWorkers = 3;
constexpr uint32_t kRequests = 3000;  // of each client

class Crowd {
 public:
  Crowd() {
    UdpWireOptions options;
    options.queues = kWorkers;
    datapath_ = DatagramDatapath::open(UdpWire::open(options).value(), protocol_).value();
  }

  void run_worker(uint32_t me) {
    set_this_worker(me);
    DatapathQueue& queue = datapath_->queue(WorkerId{me});
    while (!over_.load(std::memory_order_relaxed)) {
      queue.push();
      std::array<Request*, 8> burst{};
      const uint32_t n = queue.poll(burst);
      share(burst, n);
      const uint32_t helped = datapath_->queue(WorkerId{(me + 1) % kWorkers}).poll(burst);
      share(burst, helped);
      Request* const request = steal();
      if (request == nullptr && !queue.pending()) queue.wait(Nanos::millis(1));
      if (request == nullptr) continue;
      request->reply->append(request->payload);
      request->datapath->finish(*request);
    }
    queue.push();
    set_no_worker();
  }

  // One request at a time, so each reply is the one that is due. False: it is lost.
  bool run_client() {
    const SocketAddress to = resolve("127.0.0.1", datapath_->wire().port()).value();
    const Fd fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    const timeval limit{20, 0};
    ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&to.storage), to.length) != 0) {
      return false;
    }
    for (uint32_t i = 0; i < kRequests; ++i) {
      const std::string text = std::to_string(i);
      char bytes[32];
      if (::send(fd.get(), text.data(), text.size(), 0) < 0) return false;
      const ssize_t n = ::recv(fd.get(), bytes, sizeof bytes, 0);
      if (n < 0 || std::string_view(bytes, static_cast<size_t>(n)) != text) return false;
    }
    return true;
  }

  void run_mover() {
    for (uint64_t i = 0; !over_.load(std::memory_order_relaxed); ++i) {
      datapath_->steer(i % kSteeringGroups, WorkerId{static_cast<uint32_t>(i / 7 % kWorkers)});
      static_cast<void>(datapath_->in_flight() + datapath_->stats().requests);
      std::this_thread::yield();
    }
  }

  void end() { over_.store(true, std::memory_order_relaxed); }
  DatagramDatapath& datapath() { return *datapath_; }

 private:
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

  EchoDatagrams protocol_;
  std::unique_ptr<DatagramDatapath> datapath_;
  std::mutex mutex_;
  std::deque<Request*> shared_;
  std::atomic<bool> over_{false};
};

TEST(DatagramStress, requests_that_others_finish_are_all_answered) {
  Crowd crowd;
  std::vector<std::thread> servers;
  for (uint32_t i = 0; i < kWorkers; ++i) {
    servers.emplace_back([&crowd, i] { crowd.run_worker(i); });
  }
  servers.emplace_back([&crowd] { crowd.run_mover(); });
  std::vector<std::thread> clients;
  std::atomic<uint32_t> served{0};
  for (int i = 0; i < 4; ++i) {
    clients.emplace_back([&] { served.fetch_add(crowd.run_client() ? 1 : 0); });
  }
  for (std::thread& client : clients) client.join();
  crowd.end();
  for (std::thread& server : servers) server.join();
  EXPECT_EQ(served.load(), 4u);
  EXPECT_EQ(crowd.datapath().in_flight(), 0u);
  EXPECT_EQ(crowd.datapath().stats().requests, 4u * kRequests);
}

}  // namespace
}  // namespace rubato::testing
