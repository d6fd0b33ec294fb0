// SPDX-License-Identifier: Apache-2.0
//
// The datagram contract on kernel UDP, in batches and one at a time, and on a wire in memory; and
// what a wire with faults does to requests.
#include <netinet/in.h>
#include <netinet/udp.h>

#include "datapath/testing/datagram_contract.h"
#include "datapath/testing/memory_wire.h"
#include "datapath/testing/udp_client.h"
#include "datapath/udp_wire.h"
#include "datapath/tcp_socket.h"

namespace rubato::testing {
namespace {

class UdpBed final : public DatagramBed {
 public:
  UdpBed(const char* host, uint32_t batch) : host_(host), batch_(batch) {}
  std::unique_ptr<DatagramWire> open(uint32_t queues, std::string& reason) override {
    UdpWireOptions options;
    options.bind = host_;
    options.queues = queues;
    options.batch = batch_;
    auto wire = UdpWire::open(options);
    if (!wire.ok()) {
      reason = wire.error();
      return nullptr;
    }
    port_ = wire.value()->port();
    return std::move(*wire);
  }
  std::unique_ptr<DatagramClient> connect() override {
    return std::make_unique<UdpClient>(host_, port_);
  }

 private:
  const char* const host_;
  const uint32_t batch_;
  uint16_t port_ = 0;
};

class MemoryClient final : public DatagramClient {
 public:
  MemoryClient(MemoryWire& wire, uint16_t port) : wire_(wire) { peer_.port = port; }
  void send(std::string_view bytes) override { wire_.put({peer_, std::string(bytes)}); }
  std::string receive() override {
    std::string bytes;
    wire_.take(peer_.port, bytes);
    return bytes;
  }

 private:
  MemoryWire& wire_;
  DatagramPeer peer_;
};

class MemoryBed final : public DatagramBed {
 public:
  explicit MemoryBed(const WireFaults& faults = {}, uint64_t seed = 1)
      : faults_(faults), seed_(seed) {}
  std::unique_ptr<DatagramWire> open(uint32_t queues, std::string&) override {
    auto wire = std::make_unique<MemoryWire>(queues, faults_, seed_);
    wire_ = wire.get();
    return wire;
  }
  std::unique_ptr<DatagramClient> connect() override {
    return std::make_unique<MemoryClient>(*wire_, next_port_++);
  }
  MemoryWire& wire() { return *wire_; }

 private:
  const WireFaults faults_;
  const uint64_t seed_;
  MemoryWire* wire_ = nullptr;
  uint16_t next_port_ = 1000;
};

INSTANTIATE_TEST_SUITE_P(
    Wires, DatagramContract,
    ::testing::Values(
        NamedBed{"udp", [] { return std::make_unique<UdpBed>("127.0.0.1", 32); }},
        NamedBed{"udp6", [] { return std::make_unique<UdpBed>("::1", 32); }},
        NamedBed{"udp_singly", [] { return std::make_unique<UdpBed>("127.0.0.1", 1); }},
        NamedBed{"memory", [] { return std::make_unique<MemoryBed>(); }}),
    [](const auto& bed) { return bed.param.name; });

TEST(DatagramDatapath, every_datagram_of_a_bad_wire_is_accounted_for) {
  MemoryBed bed({.lost = 0.1, .doubled = 0.05, .reordered = 0.2}, 7);
  EchoDatagrams protocol;
  std::string reason;
  auto datapath = DatagramDatapath::open(bed.open(2, reason), protocol).value();
  std::vector<std::unique_ptr<DatagramClient>> clients;
  for (int i = 0; i < 10; ++i) clients.push_back(bed.connect());
  constexpr uint64_t kSent = 200'000;
  uint64_t served = 0;
  uint64_t heard = 0;
  for (uint64_t i = 0; i < kSent; ++i) {
    clients[i % clients.size()]->send(std::to_string(i));
    if (i % 16 != 0) continue;
    for (uint32_t q = 0; q < 2; ++q) {
      std::array<Request*, 32> burst{};
      const uint32_t n = datapath->queue(WorkerId{q}).poll(burst);
      for (uint32_t k = 0; k < n; ++k) {
        burst[k]->reply->append(burst[k]->payload);
        burst[k]->datapath->finish(*burst[k]);
        ++served;
      }
    }
    for (auto& client : clients) {
      while (!client->receive().empty()) ++heard;
    }
  }
  for (uint32_t q = 0; q < 2; ++q) {
    std::array<Request*, 32> burst{};
    while (const uint32_t n = datapath->queue(WorkerId{q}).poll(burst)) {
      for (uint32_t k = 0; k < n; ++k) burst[k]->datapath->finish(*burst[k]);  // without a reply
      served += n;
    }
  }
  EXPECT_EQ(served, kSent - bed.wire().lost + bed.wire().doubled);
  EXPECT_EQ(datapath->stats().requests, served);
  EXPECT_LE(heard, served);
  EXPECT_EQ(bed.wire().lent, 0);
  EXPECT_EQ(datapath->in_flight(), 0u);
}

// One client sends a train by GSO, which GRO may leave together; the replies leave in a train, too.
TEST(UdpWire, trains_of_one_peer_are_taken_apart_and_answered) {
  UdpBed bed("127.0.0.1", 32);
  EchoDatagrams protocol;
  std::string reason;
  auto datapath = DatagramDatapath::open(bed.open(1, reason), protocol).value();
  auto client = bed.connect();
  const int segment = 64;
  if (::setsockopt(static_cast<UdpClient&>(*client).fd(), IPPROTO_UDP, UDP_SEGMENT, &segment,
                   sizeof segment) != 0) {
    GTEST_SKIP() << "no GSO";
  }
  for (int round = 0; round < 20; ++round) {
    std::string train;
    for (char c = 'a'; c < 'a' + 20; ++c) train += std::string(64, c);
    train += "tail";
    client->send(train);
    set_this_worker(0);
    uint32_t served = 0;
    const Instant deadline = datapath_now() + Nanos::seconds(10);
    while (served < 21 && datapath_now() < deadline) {
      std::array<Request*, 8> burst{};
      const uint32_t n = datapath->queue(WorkerId{0}).poll(burst);
      for (uint32_t i = 0; i < n; ++i, ++served) {
        burst[i]->reply->append(burst[i]->payload);
        burst[i]->datapath->finish(*burst[i]);
      }
    }
    datapath->queue(WorkerId{0}).push();
    set_no_worker();
    ASSERT_EQ(served, 21u);
    for (char c = 'a'; c < 'a' + 20; ++c) ASSERT_EQ(client->receive(), std::string(64, c));
    ASSERT_EQ(client->receive(), "tail");
  }
}

// What one call of the kernel has brought ends no sleep of the next.
TEST(UdpWire, a_wait_ends_at_once_while_datagrams_of_a_train_are_left) {
  UdpBed bed("127.0.0.1", 32);
  EchoDatagrams protocol;
  std::string reason;
  auto datapath = DatagramDatapath::open(bed.open(1, reason), protocol).value();
  DatapathQueue& queue = datapath->queue(WorkerId{0});
  auto client = bed.connect();
  const int segment = 4;
  if (::setsockopt(static_cast<UdpClient&>(*client).fd(), IPPROTO_UDP, UDP_SEGMENT, &segment,
                   sizeof segment) != 0) {
    GTEST_SKIP() << "no GSO";
  }
  std::string train;
  for (int i = 0; i < 20; ++i) train += "!bad";
  client->send(train + "good");
  std::array<Request*, 8> burst{};
  uint32_t taken = 0;
  while (taken == 0) {
    queue.wait(Nanos::seconds(1000));
    taken = queue.poll(burst);
  }
  ASSERT_EQ(taken, 1u);
  EXPECT_EQ(datapath->drops().no_request, 20u);
  burst[0]->datapath->finish(*burst[0]);
}

// What the kernel refuses because of one peer changes nothing for the others.
TEST(UdpWire, a_train_that_is_refused_ends_no_others) {
  UdpWireOptions options;
  auto wire = UdpWire::open(options).value();
  if (wire->describe().find("GSO") == std::string::npos) GTEST_SKIP() << "no GSO";
  DatagramPeer nobody;
  nobody.address = {127, 0, 0, 1};
  WireQueue& queue = wire->queue(WorkerId{0});
  for (int i = 0; i < 2; ++i) queue.send(nobody, "to port 0");
  queue.push();
  EXPECT_EQ(wire->drops().unsent, 2u);
  EXPECT_NE(wire->describe().find("GSO"), std::string::npos);
}

// Of all addresses that a wildcard socket has, a client hears only the one that it asked.
TEST(UdpWire, a_reply_comes_from_the_address_that_was_asked) {
  for (const char* asked : {"127.0.0.2", "127.0.0.1", "::1"}) {
    for (const char* bind : {"*", "0.0.0.0"}) {
      if (std::string(bind) == "0.0.0.0" && std::string(asked) == "::1") continue;
      UdpBed bed(bind, 32);
      EchoDatagrams protocol;
      std::string reason;
      auto datapath = DatagramDatapath::open(bed.open(1, reason), protocol).value();
      UdpClient client(asked, datapath->wire().port());
      client.send("?");
      DatapathQueue& queue = datapath->queue(WorkerId{0});
      std::array<Request*, 8> burst{};
      while (datapath->stats().requests == 0) EXPECT_EQ(queue.poll(burst), 0u);
      queue.push();
      EXPECT_EQ(client.receive(), "answered") << asked << " of " << bind;
    }
  }
}

TEST(UdpWire, what_does_not_fit_is_not_cut_short_but_counted) {
  auto wire = UdpWire::open({}).value();
  UdpClient client("127.0.0.1", wire->port());
  client.send("where");
  std::array<Datagram, 1> one;
  WireQueue& queue = wire->queue(WorkerId{0});
  while (queue.receive(one, datapath_now(), false) == 0) continue;
  queue.send(one[0].peer, std::string(kMaxDatagramPayload + 1, 'x'));
  queue.send(one[0].peer, std::string(kMaxDatagramPayload, 'y'));
  queue.release(one[0]);
  queue.push();
  EXPECT_EQ(client.receive(), std::string(kMaxDatagramPayload, 'y'));
  EXPECT_EQ(wire->drops().unsent, 1u);
}

TEST(UdpWire, what_the_system_does_not_allow_is_said) {
  UdpWireOptions options;
  options.queues = 2;
  options.steering = false;
  auto wire = UdpWire::open(options).value();
  EXPECT_FALSE(wire->steer_group(0, WorkerId{1}));
  EXPECT_NE(wire->describe().find("kernel UDP, batches of 32"), std::string::npos);
  options.batch = 65;
  EXPECT_EQ(UdpWire::open(options).error(), "udp_batch must be 1 to 64");
  options.batch = 1;
  options.port = wire->port();
  EXPECT_NE(UdpWire::open(options).error().find("(UDP): Address already in use"),
            std::string::npos);
}

}  // namespace
}  // namespace rubato::testing
