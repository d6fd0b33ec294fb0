// SPDX-License-Identifier: Apache-2.0
#include "load/datagram_flows.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "mechanism/clock/clock.h"

namespace rubato::load {
namespace {

constexpr uint32_t kIds = 65536;
constexpr Nanos kLong = Nanos::seconds(600);  // no test waits for its end

// One socket, and a server of memcached's protocol that the test plays.
class DatagramFlowsTest : public ::testing::Test, public FlowEvents {
 protected:
  DatagramFlowsTest() : server_(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    Endpoint endpoint;
    auto& address = reinterpret_cast<sockaddr_in&>(endpoint.address);
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    endpoint.length = sizeof address;
    auto* const at = reinterpret_cast<sockaddr*>(&endpoint.address);
    EXPECT_EQ(::bind(server_.get(), at, endpoint.length), 0);
    EXPECT_EQ(::getsockname(server_.get(), at, &endpoint.length), 0);
    options_.target.protocol = Protocol::kMemcachedUdp;
    options_.reply_timeout = kLong;
    flows_ = make_datagram_flows(endpoint, options_, *this);
    std::thread probed([this] { answer(hear(), "VERSION 1\r\n"); });
    EXPECT_TRUE(flows_->open_all(1).ok());
    probed.join();
  }

  void on_reply(const Outstanding& request, Instant) override { replied_.push_back(request.type); }
  void on_failed(const Outstanding&, Outcome, std::string_view text) override { failed_ = text; }
  void on_lost(const Outstanding&) override { ++lost_; }
  void on_closed() override {}

  void send(uint32_t number) {
    flows_->send(0, "get k\r\n", {.due = now(), .service = {}, .type = number});
  }
  // The id of the next request, which tells where to answer.
  uint16_t hear() {
    std::array<unsigned char, 64> bytes{};
    client_length_ = sizeof client_;
    EXPECT_GT(::recvfrom(server_.get(), bytes.data(), bytes.size(), 0,
                         reinterpret_cast<sockaddr*>(&client_), &client_length_),
              8);
    return static_cast<uint16_t>(bytes[0] << 8 | bytes[1]);
  }
  void answer(uint16_t id, const std::string& text) {
    std::string bytes;
    for (const int word : {int{id}, 0, 1, 0}) {
      bytes.push_back(static_cast<char>(word >> 8));
      bytes.push_back(static_cast<char>(word));
    }
    bytes += text;
    ::sendto(server_.get(), bytes.data(), bytes.size(), 0,
             reinterpret_cast<const sockaddr*>(&client_), client_length_);
  }
  void await_replies(size_t count) {
    const Instant limit = now() + Nanos::seconds(60);
    while (replied_.size() < count && now() < limit) EXPECT_TRUE(flows_->poll(now()).ok());
  }

  Fd server_;
  sockaddr_storage client_{};
  socklen_t client_length_ = 0;
  LoadOptions options_;
  std::unique_ptr<Flows> flows_;
  std::vector<uint32_t> replied_;
  std::string failed_;
  uint32_t lost_ = 0;
};

TEST_F(DatagramFlowsTest, an_id_is_not_used_again_while_its_request_waits) {
  send(0);
  const uint16_t first = hear();
  for (uint32_t i = 1; i < kIds; ++i) send(i);
  EXPECT_EQ(failed_, "");
  send(kIds);
  EXPECT_EQ(failed_, "every id of the socket waits for a reply");
  EXPECT_EQ(flows_->outstanding(), kIds);
  answer(first, "END\r\n");
  await_replies(1);
  EXPECT_EQ(replied_, std::vector<uint32_t>{0});
  send(kIds + 1);  // by the id that is free again
  answer(first, "END\r\n");
  await_replies(2);
  EXPECT_EQ(replied_, (std::vector<uint32_t>{0, kIds + 1}));
  flows_->abandon();
  EXPECT_EQ(lost_, kIds - 1);
}

}  // namespace
}  // namespace rubato::load
