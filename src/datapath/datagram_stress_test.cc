// SPDX-License-Identifier: Apache-2.0
//
// Workers that take in and finish each other's datagrams, and lines of connections beside them,
// while a table moves the clients between them.
#include <gtest/gtest.h>
#include <sys/time.h>

#include <atomic>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "datapath/datagram_datapath.h"
#include "datapath/joint.h"
#include "datapath/tcp_socket.h"
#include "datapath/testing/datagram_contract.h"
#include "datapath/testing/line_protocol.h"
#include "datapath/udp_wire.h"
#include "mechanism/cpu/this_worker.h"

namespace rubato::testing {

// Here only its beds are used.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(DatagramContract);

namespace {

constexpr uint32_t kWorkers = 3;
constexpr uint32_t kRequests = 3000;  // of each client

class Crowd {
 public:
  // `joint`: it serves connections, too.
  explicit Crowd(bool joint = false) {
    UdpWireOptions options;
    options.queues = kWorkers;
    datapath_ = DatagramDatapath::open(UdpWire::open(options).value(), protocol_).value();
    served_ = datapath_.get();
    if (!joint) return;
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
        request->reply->append(request->payload);
        request = request->datapath->finish(*request);
      }
    }
    queue.push();
    set_no_worker();
  }

  // One request at a time, so each reply is the one that is due. False: it is lost.
  bool run_client(int type = SOCK_DGRAM) {
    const bool streams = type == SOCK_STREAM;
    const uint16_t port = streams ? tcp_->port() : datapath_->wire().port();
    const SocketAddress to = resolve("127.0.0.1", port).value();
    const Fd fd(::socket(AF_INET, type | SOCK_CLOEXEC, 0));
    const timeval limit{20, 0};
    ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&to.storage), to.length) != 0) {
      return false;
    }
    for (uint32_t i = 0; i < kRequests; ++i) {
      const std::string text = std::to_string(i) + "\n";
      char bytes[32];
      if (::send(fd.get(), text.data(), text.size(), 0) < 0) return false;
      const ssize_t n = ::recv(fd.get(), bytes, sizeof bytes, 0);
      if (n < 0 || std::string_view(bytes, static_cast<size_t>(n)) != text) return false;
    }
    return true;
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

  void end() { over_.store(true, std::memory_order_relaxed); }
  Datapath& datapath() { return *served_; }

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
  LineProtocol lines_;
  std::unique_ptr<DatagramDatapath> datapath_;
  std::unique_ptr<TcpDatapath> tcp_;
  std::unique_ptr<JointDatapath> joint_;
  Datapath* served_ = nullptr;
  std::mutex mutex_;
  std::deque<Request*> shared_;
  std::atomic<bool> over_{false};
};

// Its clients by the types of their sockets.
void serve_crowd(Crowd& crowd, const std::vector<int>& types) {
  std::vector<std::thread> servers;
  for (uint32_t i = 0; i < kWorkers; ++i) {
    servers.emplace_back([&crowd, i] { crowd.run_worker(i); });
  }
  servers.emplace_back([&crowd] { crowd.run_mover(); });
  std::vector<std::thread> clients;
  std::atomic<uint32_t> served{0};
  for (const int type : types) {
    clients.emplace_back([&, type] { served.fetch_add(crowd.run_client(type) ? 1 : 0); });
  }
  for (std::thread& client : clients) client.join();
  crowd.end();
  for (std::thread& server : servers) server.join();
  EXPECT_EQ(served.load(), types.size());
  EXPECT_EQ(crowd.datapath().in_flight(), 0u);
  EXPECT_EQ(crowd.datapath().stats().requests, types.size() * kRequests);
}

TEST(DatagramStress, requests_that_others_finish_are_all_answered) {
  Crowd crowd;
  serve_crowd(crowd, {SOCK_DGRAM, SOCK_DGRAM, SOCK_DGRAM, SOCK_DGRAM});
}

TEST(DatagramStress, so_are_those_of_connections_beside_them) {
  Crowd crowd(true);
  serve_crowd(crowd, {SOCK_DGRAM, SOCK_STREAM, SOCK_DGRAM, SOCK_STREAM});
}

}  // namespace
}  // namespace rubato::testing
