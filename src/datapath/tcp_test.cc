// SPDX-License-Identifier: Apache-2.0
#include "datapath/tcp.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include "datapath/tcp_socket.h"
#include "datapath/testing/line_protocol.h"
#include "datapath/time_source.h"

namespace rubato {
namespace {

using testing::LineProtocol;

Fd connect_to(const std::string& host, uint16_t port) {
  const SocketAddress address = resolve(host, port).value();
  Fd fd(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int rc = ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address.storage),
                           address.length);
  EXPECT_EQ(rc, 0);
  return fd;
}

// Polls until `count` requests were taken and echoes each.
void echo(DatapathQueue& queue, uint32_t count) {
  std::array<Request*, 32> burst{};
  uint32_t done = 0;
  while (done < count) {
    const uint32_t n = queue.poll(burst);
    if (n == 0) queue.wait(Nanos::seconds(1));
    for (uint32_t i = 0; i < n; ++i) {
      for (Request* r = burst[i]; r != nullptr; ++done) {
        r->reply->append(r->payload);
        r = queue.finish(*r);
      }
    }
  }
}

std::string receive(int fd, size_t size) {
  std::string text(size, '\0');
  const ssize_t n = ::recv(fd, text.data(), size, MSG_WAITALL);
  text.resize(n > 0 ? static_cast<size_t>(n) : 0);
  return text;
}

std::unique_ptr<TcpDatapath> open_tcp(TcpOptions options, Protocol& protocol) {
  auto opened = TcpDatapath::open(std::move(options), protocol);
  if (!opened.ok()) ADD_FAILURE() << opened.error();
  return std::move(opened).value();
}

TEST(Tcp, answers_over_ipv4_and_ipv6) {
  for (const char* host : {"127.0.0.1", "::1", "*"}) {
    LineProtocol protocol;
    TcpOptions options;
    options.bind = host;
    auto tcp = open_tcp(options, protocol);
    DatapathQueue& queue = tcp->queue(WorkerId{0});
    Fd client = connect_to(std::string(host) == "*" ? "127.0.0.1" : host, tcp->port());
    ASSERT_EQ(::send(client.get(), "one\ntwo\n", 8, 0), 8);
    echo(queue, 2);
    EXPECT_EQ(receive(client.get(), 8), "one\ntwo\n");
    EXPECT_EQ(tcp->stats().requests, 2u);
    EXPECT_EQ(tcp->stats().output_bytes, 8u);
  }
}

TEST(Tcp, second_server_on_the_port_is_refused_with_one_line) {
  LineProtocol protocol;
  auto first = open_tcp({}, protocol);
  TcpOptions options;
  options.port = first->port();
  const auto second = TcpDatapath::open(options, protocol);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error(), "cannot listen on 127.0.0.1:" + std::to_string(options.port) +
                                ": Address already in use");
}

}  // namespace
}  // namespace rubato
