// SPDX-License-Identifier: Apache-2.0
#include "load/datagram_port.h"

#include <gtest/gtest.h>
#include <netinet/in.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "datapath/datagram.h"
#include "datapath/datagram_address.h"

namespace rubato::load {
namespace {

constexpr uint16_t kFirstPort = 5000;
constexpr std::array<uint8_t, 6> kMac{2, 0, 0, 0, 0, 1};

// What the wire was told to send, and what has come.
struct Traffic {
  std::vector<std::pair<DatagramPeer, std::string>> sent;
  std::vector<Datagram> arrived;
  int lent = 0;
  DatagramDrops drops;
};

class FakeWire final : public DatagramWire, private WireQueue {
 public:
  explicit FakeWire(Traffic& traffic) : traffic_(traffic) {}

  uint32_t queues() const override { return 1; }
  WireQueue& queue(WorkerId) override { return *this; }
  uint16_t port() const override { return kFirstPort; }
  DatagramDrops drops() const override { return traffic_.drops; }
  std::string describe() const override { return "none"; }

 private:
  uint32_t receive(std::span<Datagram> out, Instant, bool) override {
    uint32_t n = 0;
    for (; n < out.size() && !traffic_.arrived.empty(); ++n) {
      out[n] = traffic_.arrived.back();
      traffic_.arrived.pop_back();
      ++traffic_.lent;
    }
    return n;
  }
  bool pending() const override { return !traffic_.arrived.empty(); }
  void release(const Datagram&) override { --traffic_.lent; }
  void reply(const Datagram&, size_t) override {}
  void send(const DatagramPeer& to, std::string_view bytes) override {
    traffic_.sent.emplace_back(to, bytes);
  }
  void push() override {}
  uint64_t unsent() const override { return 0; }
  std::span<const int> files() const override { return {}; }

  Traffic& traffic_;
};

class DatagramPortTest : public ::testing::Test, public DatagramEvents {
 protected:
  DatagramPortTest() {
    Endpoint target;
    auto& address = reinterpret_cast<sockaddr_in&>(target.address);
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(0x0a000001);
    address.sin_port = htons(7777);
    target_ = peer_of(target.address);
    LoadOptions options;
    options.open_wire = [this](const Endpoint&, uint32_t ports)
        -> Result<std::unique_ptr<DatagramWire>> {
      EXPECT_EQ(ports, 4u);
      return std::unique_ptr<DatagramWire>(std::make_unique<FakeWire>(traffic_));
    };
    port_ = make_datagram_port(target, options);
    EXPECT_TRUE(port_->open(4).ok());
  }

  void on_datagram(uint32_t flow, std::string_view bytes, Instant) override {
    heard_.emplace_back(flow, bytes);
  }
  void on_unreachable(uint32_t) override {}

  void arrive(DatagramPeer from, uint16_t to) {
    from.mac = kMac;
    from.local_port = to;
    Datagram datagram;
    datagram.bytes = "reply";
    datagram.peer = from;
    traffic_.arrived.push_back(datagram);
    port_->receive(*this);
    EXPECT_EQ(traffic_.lent, 0);
  }

  using Heard = std::vector<std::pair<uint32_t, std::string>>;

  Traffic traffic_;
  DatagramPeer target_;
  std::unique_ptr<DatagramPort> port_;
  Heard heard_;
};

TEST_F(DatagramPortTest, a_flow_has_a_port_of_its_own) {
  EXPECT_EQ(port_->send(2, "request"), DatagramPort::Sent::kTaken);
  ASSERT_EQ(traffic_.sent.size(), 1u);
  EXPECT_EQ(traffic_.sent[0].first.address, target_.address);
  EXPECT_EQ(traffic_.sent[0].first.port, 7777);
  EXPECT_EQ(traffic_.sent[0].first.local_port, kFirstPort + 2);
  EXPECT_EQ(traffic_.sent[0].second, "request");
  arrive(target_, kFirstPort + 3);
  arrive(target_, kFirstPort);
  EXPECT_EQ(heard_, (Heard{{3, "reply"}, {0, "reply"}}));
}

TEST_F(DatagramPortTest, datagrams_go_where_the_targets_last_one_came_from) {
  static_cast<void>(port_->send(0, "first"));
  arrive(target_, kFirstPort);
  static_cast<void>(port_->send(1, "second"));
  ASSERT_EQ(traffic_.sent.size(), 2u);
  EXPECT_EQ(traffic_.sent[0].first.mac, (std::array<uint8_t, 6>{}));
  EXPECT_EQ(traffic_.sent[1].first.mac, kMac);
  EXPECT_EQ(traffic_.sent[1].first.local_port, kFirstPort + 1);
}

TEST_F(DatagramPortTest, nobody_but_the_target_is_heard) {
  DatagramPeer other = target_;
  ++other.address[3];
  arrive(other, kFirstPort);
  other = target_;
  ++other.port;
  arrive(other, kFirstPort);
  arrive(target_, kFirstPort + 4);
  arrive(target_, kFirstPort - 1);
  EXPECT_TRUE(heard_.empty());
  static_cast<void>(port_->send(0, "request"));
  EXPECT_EQ(traffic_.sent.back().first.mac, (std::array<uint8_t, 6>{}));
}

TEST_F(DatagramPortTest, what_is_lost_here_counts_once_the_target_is_found) {
  traffic_.drops.unsent = 5;
  arrive(target_, kFirstPort);
  EXPECT_EQ(port_->lost(), 0u);
  traffic_.drops = {.no_frame = 1, .ring_full = 2, .malformed = 100, .fragments = 0, .passed = 100,
                    .unsent = 5 + 3};
  EXPECT_EQ(port_->lost(), 6u);
}

}  // namespace
}  // namespace rubato::load
