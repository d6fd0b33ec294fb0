// SPDX-License-Identifier: Apache-2.0
//
// Workers that take in and finish each other's datagrams while a table moves the clients between
// them.
#include <gtest/gtest.h>
#include <sys/time.h>

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
bool run_client(uint16_t port) {
  const SocketAddress to = resolve("127.0.0.1", port).value();
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

TEST(DatagramStress, requests_that_others_finish_are_all_answered) {
  UdpWireOptions options;
  options.queues = Crowd::kWorkers;
  Crowd crowd(UdpWire::open(options).value());
  std::vector<std::thread> clients;
  std::atomic<uint32_t> served{0};
  for (int i = 0; i < 4; ++i) {
    clients.emplace_back(
        [&] { served.fetch_add(run_client(crowd.datapath().wire().port()) ? 1 : 0); });
  }
  for (std::thread& client : clients) client.join();
  crowd.end();
  EXPECT_EQ(served.load(), 4u);
  EXPECT_EQ(crowd.datapath().in_flight(), 0u);
  EXPECT_EQ(crowd.datapath().stats().requests, 4u * kRequests);
}

}  // namespace
}  // namespace rubato::testing
