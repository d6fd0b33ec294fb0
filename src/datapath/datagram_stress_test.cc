// SPDX-License-Identifier: Apache-2.0
//
// Workers that take in and finish each other's datagrams, and lines of connections beside them,
// while a table moves the clients between them.
#include <sys/socket.h>
#include <sys/time.h>

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "datapath/tcp_socket.h"
#include "datapath/testing/datagram_crowd.h"
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

}  // namespace
}  // namespace rubato::testing
