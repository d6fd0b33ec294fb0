// SPDX-License-Identifier: Apache-2.0
//
// Workers that take in and finish each other's datagrams, and lines of connections beside them,
// while a table moves the clients between them.
#include <sched.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "datapath/datagram_queue.h"
#include "datapath/tcp_socket.h"
#include "datapath/testing/datagram_crowd.h"
#include "datapath/time_source.h"
#include "datapath/udp_wire.h"

namespace rubato::testing {
namespace {

constexpr uint32_t kRequests = 3000;  // of each client

// One request at a time, so each reply is the one that is due. False: it is lost.
bool run_client(uint16_t port, int type) {
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

// Its clients by the types of their sockets.
void serve_crowd(Crowd& crowd, const std::vector<int>& types) {
  std::vector<std::thread> clients;
  std::atomic<uint32_t> served{0};
  for (const int type : types) {
    const uint16_t port = type == SOCK_STREAM ? crowd.connection_port() : crowd.datagram_port();
    clients.emplace_back(
        [&served, port, type] { served.fetch_add(run_client(port, type) ? 1 : 0); });
  }
  for (std::thread& client : clients) client.join();
  crowd.end();
  EXPECT_EQ(served.load(), types.size());
  EXPECT_EQ(crowd.datapath().in_flight(), 0u);
  EXPECT_EQ(crowd.datapath().stats().requests, types.size() * kRequests);
}

std::unique_ptr<DatagramWire> open_wire() {
  UdpWireOptions options;
  options.queues = Crowd::kWorkers;
  return UdpWire::open(options).value();
}

TEST(DatagramStress, requests_that_others_finish_are_all_answered) {
  Crowd crowd(open_wire());
  serve_crowd(crowd, {SOCK_DGRAM, SOCK_DGRAM, SOCK_DGRAM, SOCK_DGRAM});
}

TEST(DatagramStress, so_are_those_of_connections_beside_them) {
  Crowd crowd(open_wire(), true);
  serve_crowd(crowd, {SOCK_DGRAM, SOCK_STREAM, SOCK_DGRAM, SOCK_STREAM});
}

// The clients of flows that keep their order. A thread of them stays on one CPU, since the kernel
// may let what another CPU sends overtake.
class OrderedClients {
 public:
  static constexpr uint32_t kThreads = 2;
  static constexpr uint32_t kSockets = 24;  // of each thread
  static constexpr uint32_t kWindow = 4;    // requests of a socket that are underway

  explicit OrderedClients(uint16_t port) {
    for (uint32_t i = 0; i < kThreads; ++i) threads_.emplace_back([this, port] { run(port); });
  }
  // Returns the requests that were answered; zero = some were lost.
  uint64_t end() {
    over_ = true;
    for (std::thread& thread : threads_) thread.join();
    return lost_ ? 0 : answered_.load();
  }

 private:
  struct Client {
    Fd fd;
    uint32_t sent = 0;
    uint32_t heard = 0;
  };

  void run(uint16_t port) {
    cpu_set_t cpu;
    CPU_ZERO(&cpu);
    CPU_SET(static_cast<size_t>(::sched_getcpu()), &cpu);
    ::sched_setaffinity(0, sizeof cpu, &cpu);
    const SocketAddress to = resolve("127.0.0.1", port).value();
    std::vector<Client> clients(kSockets);
    for (Client& client : clients) {
      client.fd = Fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
      const timeval limit{30, 0};
      ::setsockopt(client.fd.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
      ::connect(client.fd.get(), reinterpret_cast<const sockaddr*>(&to.storage), to.length);
    }
    while (!over_ && !lost_) {
      for (Client& client : clients) ask(client);
      for (Client& client : clients) hear(client);
    }
    for (const Client& client : clients) answered_ += client.heard;
  }

  static void ask(Client& client) {
    while (client.sent - client.heard < kWindow) {
      const std::string text = std::to_string(client.sent++);
      ::send(client.fd.get(), text.data(), text.size(), 0);
    }
  }
  void hear(Client& client) {
    char bytes[32];
    while (client.heard < client.sent && !lost_) {
      if (::recv(client.fd.get(), bytes, sizeof bytes, 0) <= 0) lost_ = true;
      ++client.heard;
    }
  }

  std::atomic<bool> over_{false};
  std::atomic<bool> lost_{false};
  std::atomic<uint64_t> answered_{0};
  std::vector<std::thread> threads_;
};

// RUBATO_MOVES is how often, at least, a request came by another queue than the one before it.
TEST(DatagramStress, flows_that_keep_their_order_keep_it_while_they_move) {
  const char* const wanted = std::getenv("RUBATO_MOVES");
  const auto least = static_cast<uint64_t>(wanted != nullptr ? std::atoll(wanted) : 200);
  const FlowsInOrder rules;
  struct Flow {  // of one request at a time
    std::atomic<uint32_t> due{0};
    std::atomic<const void*> came_by{nullptr};
  };
  std::vector<Flow> flows(65536);  // by the port of the client
  std::atomic<uint64_t> wrong{0};
  std::atomic<uint64_t> moved{0};
  std::atomic<Datapath*> served{nullptr};
  Crowd crowd(open_wire(), rules, [&](const Request& request) {
    const auto& datagram = static_cast<const DatagramRequest&>(request).datagram;
    const auto number = static_cast<uint32_t>(std::stoul(std::string(request.payload)));
    Flow& flow = flows[datagram.peer.port];
    wrong += flow.due.exchange(number + 1) == number ? 0 : 1;
    moved += flow.came_by.exchange(request.datapath) == request.datapath ? 0 : 1;
    const WorkerId next{number / 4 % Crowd::kWorkers};
    if (number % 4 == 0) served.load()->steer(request.flow, next);
  });
  served = &crowd.datapath();
  OrderedClients clients(crowd.datagram_port());
  const Instant deadline = datapath_now() + Nanos::seconds(3400);
  while (crowd.steers() && moved < least && datapath_now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const uint64_t answered = clients.end();
  crowd.end();
  EXPECT_GT(answered, 0u);
  EXPECT_EQ(wrong, 0u);
  if (!crowd.steers()) GTEST_SKIP() << "no steering here";
  EXPECT_GE(moved, least);
  std::printf("%llu requests in order, %llu times by another queue\n",
              static_cast<unsigned long long>(answered),
              static_cast<unsigned long long>(moved.load()));
}

}  // namespace
}  // namespace rubato::testing
