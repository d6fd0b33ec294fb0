// SPDX-License-Identifier: Apache-2.0
#include "datapath/tcp.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <string>
#include <vector>

#include "datapath/tcp_socket.h"
#include "datapath/testing/line_protocol.h"
#include "datapath/time_source.h"
#include "mechanism/cpu/pin.h"

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

// Of the process's table of descriptors.
uint64_t room_for_descriptors() {
  std::ifstream status("/proc/self/status");
  std::string word;
  uint64_t size = 0;
  while (status >> word && word != "FDSize:") continue;
  status >> size;
  return size;
}

// Its growth makes all workers wait that accept.
TEST(Tcp, the_table_of_descriptors_has_room_for_all_connections_from_the_start) {
  LineProtocol protocol;
  TcpOptions options;
  options.queues = 2;
  options.max_flows = 900;
  auto datapath = open_tcp(options, protocol);
  EXPECT_GE(room_for_descriptors(), 900u);
  datapath->set_max_flows(1000);
  EXPECT_GE(room_for_descriptors(), 1000u);
  datapath->set_max_flows(4'000'000'000);  // as many as the limit on descriptors allows
  rlimit most{};
  ::getrlimit(RLIMIT_NOFILE, &most);
  EXPECT_GE(room_for_descriptors(), std::min<uint64_t>(most.rlim_cur, 1'000'000));
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

TEST(Tcp, the_protocol_is_told_by_which_port_a_client_came) {
  LineProtocol protocol;
  TcpOptions options;
  options.more_ports = {{0, ""}, {0, ""}};
  auto tcp = open_tcp(options, protocol);
  ASSERT_EQ(tcp->ports().size(), 3u);
  for (uint32_t port : {2u, 0u, 1u}) {
    const Fd client = connect_to("127.0.0.1", tcp->ports()[port]);
    ASSERT_EQ(::send(client.get(), "one\n", 4, 0), 4);
    echo(tcp->queue(WorkerId{0}), 1);
    EXPECT_EQ(receive(client.get(), 4), "one\n");
    EXPECT_EQ(protocol.last_port, port);
  }
}

TEST(Tcp, who_is_over_the_limit_is_told_so_in_the_words_of_the_port) {
  LineProtocol protocol;
  TcpOptions options;
  options.max_flows = 0;
  options.over_limit_reply = "first!";
  options.more_ports = {{0, "second"}, {0, "third!"}};
  auto tcp = open_tcp(options, protocol);
  const char* const words[] = {"first!", "second", "third!"};
  std::vector<Fd> clients;
  for (const uint16_t port : tcp->ports()) clients.push_back(connect_to("127.0.0.1", port));
  std::array<Request*, 1> none{};
  while (tcp->stats().flows_refused < 3) tcp->queue(WorkerId{0}).poll(none);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(receive(clients[i].get(), 6), words[i]);
}

TEST(Tcp, who_is_turned_away_by_the_protocol_is_answered_closed_and_counted) {
  LineProtocol protocol;
  protocol.answer_to_all = "not you";
  auto tcp = open_tcp({}, protocol);
  const Fd client = connect_to("127.0.0.1", tcp->port());
  std::array<Request*, 1> none{};
  while (tcp->stats().flows_refused < 1) tcp->queue(WorkerId{0}).poll(none);
  EXPECT_EQ(receive(client.get(), 7), "not you");
  EXPECT_EQ(protocol.last_flow, 0U);
  EXPECT_EQ(tcp->stats().flows_open, 0U);
}

// Notes who asks, and serves nobody.
class Doorman final : public Protocol {
 public:
  std::unique_ptr<Session> open(const Peer&) override { return nullptr; }
  std::string refusal_for(const Peer& peer) override {
    asked = peer.address;
    return "no";
  }

  std::string asked;
};

TEST(Tcp, who_sends_and_resets_before_it_is_accepted_has_an_address_all_the_same) {
  Doorman protocol;
  auto tcp = open_tcp({}, protocol);
  Fd client = connect_to("127.0.0.1", tcp->port());
  const std::string address = local_text(client.get());
  ASSERT_EQ(::send(client.get(), "one\n", 4, 0), 4);
  const linger reset{1, 0};
  ASSERT_EQ(::setsockopt(client.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset), 0);
  client.reset();
  std::array<Request*, 1> none{};
  while (tcp->stats().flows_refused < 1) tcp->queue(WorkerId{0}).poll(none);
  EXPECT_EQ(protocol.asked, address);
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

TEST(Tcp, bad_address_is_one_line) {
  LineProtocol protocol;
  TcpOptions options;
  options.bind = "300.1.2.3";
  const auto opened = TcpDatapath::open(options, protocol);
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().substr(0, 36), "cannot resolve address '300.1.2.3': ");
  EXPECT_EQ(opened.error().find('\n'), std::string::npos);
}

TEST(Tcp, addresses_are_shown_as_clients_write_them) {
  LineProtocol protocol;
  auto tcp = open_tcp({}, protocol);
  const Fd client = connect_to("127.0.0.1", tcp->port());
  ASSERT_EQ(::send(client.get(), "a\n", 2, 0), 2);
  echo(tcp->queue(WorkerId{0}), 1);
  tcp->for_each_flow([&](const FlowInfo& info) {
    EXPECT_EQ(info.peer, local_text(client.get()));
    EXPECT_EQ(info.local, "127.0.0.1:" + std::to_string(tcp->port()));
    EXPECT_GE(info.fd, 0);
  });
}

// The kernel's stamp tells how long a request waited while no thread polled.
TEST(Tcp, request_that_waited_unpolled_is_dated_by_the_kernel) {
  LineProtocol protocol;
  auto tcp = open_tcp({}, protocol);
  DatapathQueue& queue = tcp->queue(WorkerId{0});
  const Fd client = connect_to("127.0.0.1", tcp->port());
  ASSERT_EQ(::send(client.get(), "a\n", 2, 0), 2);
  echo(queue, 1);
  ASSERT_EQ(receive(client.get(), 2), "a\n");

  ASSERT_EQ(::send(client.get(), "b\n", 2, 0), 2);
  const Instant sent = datapath_now();
  const Nanos stuck = Nanos::millis(20);
  while (datapath_now() - sent < stuck) {
  }
  std::array<Request*, 1> burst{};
  ASSERT_EQ(queue.poll(burst), 1u);
  EXPECT_LT(burst[0]->arrived, sent + Nanos::millis(10));
  EXPECT_GT(burst[0]->arrived, sent - Nanos::millis(10));
  EXPECT_EQ(queue.finish(*burst[0]), nullptr);
}

// The new queue is polled all the time, so only the kernel knows how long the bytes lay at the old.
TEST(Tcp, request_that_waited_at_a_stuck_queue_keeps_its_date_when_its_flow_is_moved) {
  LineProtocol protocol;
  TcpOptions options;
  options.queues = 2;
  auto tcp = open_tcp(options, protocol);
  const Fd client = connect_to("127.0.0.1", tcp->port());
  std::array<Request*, 1> burst{};
  uint32_t owner_queue = 0;
  while (protocol.live == 0) {
    owner_queue = 1 - owner_queue;
    tcp->queue(WorkerId{owner_queue}).poll(burst);
  }
  ASSERT_EQ(::send(client.get(), "a\n", 2, 0), 2);
  const Instant sent = datapath_now();
  DatapathQueue& other = tcp->queue(WorkerId{1 - owner_queue});
  while (datapath_now() - sent < Nanos::millis(20)) ASSERT_EQ(other.poll(burst), 0u);
  ASSERT_TRUE(tcp->steer(protocol.last_flow, WorkerId{1 - owner_queue}));
  ASSERT_EQ(other.poll(burst), 1u);
  EXPECT_LT(burst[0]->arrived, sent + Nanos::millis(10));
  EXPECT_GT(burst[0]->arrived, sent - Nanos::millis(10));
  EXPECT_EQ(other.finish(*burst[0]), nullptr);
}

// Takes all descriptors but `spare` for as long as it lives.
class DescriptorHog {
 public:
  explicit DescriptorHog(size_t spare) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit small{256, before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &small);
    for (int fd = 0; (fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0;) {
      taken_.emplace_back(fd);
    }
    taken_.resize(taken_.size() - spare);
  }
  ~DescriptorHog() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
  std::vector<Fd> taken_;
};

TEST(Tcp, running_out_of_descriptors_refuses_and_recovers) {
  LineProtocol protocol;
  auto tcp = open_tcp({}, protocol);
  DatapathQueue& queue = tcp->queue(WorkerId{0});
  std::array<Request*, 4> burst{};
  {
    // One descriptor for the client, none for the server's end.
    const DescriptorHog hog(1);
    const Fd client = connect_to("127.0.0.1", tcp->port());
    const Instant deadline = datapath_now() + Nanos::seconds(10);
    while (tcp->stats().flows_refused == 0 && datapath_now() < deadline) queue.poll(burst);
    EXPECT_EQ(tcp->stats().flows_refused, 1u);
    EXPECT_EQ(receive(client.get(), 1), "");
  }
  const Fd client = connect_to("127.0.0.1", tcp->port());
  ASSERT_EQ(::send(client.get(), "a\n", 2, 0), 2);
  echo(queue, 1);
  EXPECT_EQ(receive(client.get(), 2), "a\n");
}

TEST(Tcp, port_is_free_again_after_the_datapath_is_gone) {
  LineProtocol protocol;
  TcpOptions options;
  {
    auto tcp = open_tcp({}, protocol);
    options.port = tcp->port();
    const Fd client = connect_to("127.0.0.1", tcp->port());
    ASSERT_EQ(::send(client.get(), "a\n", 2, 0), 2);
    echo(tcp->queue(WorkerId{0}), 1);
  }
  EXPECT_TRUE(TcpDatapath::open(options, protocol).ok());
}

TEST(Tcp, queues_share_the_port) {
  LineProtocol protocol;
  TcpOptions options;
  options.queues = 4;
  auto tcp = open_tcp(options, protocol);
  std::vector<Fd> clients;
  for (int i = 0; i < 64; ++i) clients.push_back(connect_to("127.0.0.1", tcp->port()));
  std::array<Request*, 1> burst{};
  const Instant deadline = datapath_now() + Nanos::seconds(10);
  std::array<int, 4> accepted{};
  while (protocol.live < 64 && datapath_now() < deadline) {
    for (uint32_t q = 0; q < 4; ++q) {
      const int before = protocol.live;
      tcp->queue(WorkerId{q}).poll(burst);
      accepted[q] += protocol.live - before;
    }
  }
  EXPECT_EQ(protocol.live, 64);
  for (const int count : accepted) EXPECT_GT(count, 0);
}

TEST(Tcp, a_connection_goes_to_the_queue_of_the_cpu_it_came_by) {
  const std::vector<uint32_t> before = allowed_cpus();
  if (before.size() < 2) GTEST_SKIP() << "takes two CPUs";
  LineProtocol protocol;
  TcpOptions options;
  options.queues = 2;
  options.cpus = {before[0], before[1]};
  auto tcp = open_tcp(options, protocol);
  std::vector<Fd> clients;
  std::array<Request*, 1> burst{};
  for (const uint32_t queue : {1U, 0U, 1U}) {
    ASSERT_TRUE(pin_this_thread(options.cpus[queue]).ok());
    const int live = protocol.live;
    for (int i = 0; i < 16; ++i) clients.push_back(connect_to("127.0.0.1", tcp->port()));
    tcp->queue(WorkerId{1 - queue}).poll(burst);
    EXPECT_EQ(protocol.live, live);
    tcp->queue(WorkerId{queue}).poll(burst);
    EXPECT_EQ(protocol.live, live + 16);
  }
  ASSERT_TRUE(pin_this_thread_to_any(before).ok());
}

TEST(Tcp, connections_poll_their_card_for_as_long_as_they_are_told) {
  LineProtocol protocol;
  TcpOptions options;
  options.busy_poll = Nanos::micros(50);
  auto opened = TcpDatapath::open(options, protocol);
  if (!opened.ok()) GTEST_SKIP() << opened.error();
  auto tcp = std::move(opened).value();
  const Fd client = connect_to("127.0.0.1", tcp->port());
  std::array<Request*, 1> burst{};
  tcp->queue(WorkerId{0}).poll(burst);
  std::vector<int> found;
  tcp->for_each_flow([&](const FlowInfo& flow) {
    int micros = 0;
    socklen_t size = sizeof micros;
    EXPECT_EQ(::getsockopt(flow.fd, SOL_SOCKET, SO_BUSY_POLL, &micros, &size), 0);
    found.push_back(micros);
  });
  EXPECT_EQ(found, std::vector<int>{50});
}

}  // namespace
}  // namespace rubato
