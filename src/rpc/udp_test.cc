// SPDX-License-Identifier: Apache-2.0
#include "rpc/udp.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/time.h>

#include <map>

#include "base/prng.h"
#include "datapath/tcp_socket.h"
#include "datapath/testing/memory_wire.h"
#include "datapath/time_source.h"
#include "datapath/udp_wire.h"
#include "rpc/testing/echo_session.h"

namespace rubato::rpc {
namespace {

using testing::framed;

// Answers each request with its body.
struct EchoRequest final : RequestData {
  ServerRequest rpc;
};

ServerRequest& of(const Request& request) { return static_cast<EchoRequest&>(*request.data).rpc; }

class EchoSession final : public Session {
 public:
  EchoSession(AdmissionController& admission, uint64_t flow)
      : rpc_(admission, flow,
             {.body_bytes = kMaxBodyBytes, .datagrams = true, .in_service = kMaxInService}) {}

  uint32_t concurrency() const override { return kMaxInService; }
  std::unique_ptr<RequestData> make_request_data() override {
    return std::make_unique<EchoRequest>();
  }
  Frame frame(std::string_view unread, Request& request) override {
    return rpc_.find(unread, request, of(request));
  }
  void refuse(Request& request) override { ServerSession::refused(request, of(request)); }
  void answer(Request& request) override { rpc_.answer(request, of(request)); }
  void complete(Request& request, ReplyBuffer& to) override {
    rpc_.complete(request, of(request), to, request.reply->unsent());
  }
  void on_push(ReplyBuffer& reply) override { rpc_.on_push(reply); }
  void run(Request& request) {
    ASSERT_TRUE(rpc_.admits(of(request)));
    const std::string_view body = request.payload.substr(kHeaderBytes);
    request.reply->append(body == "big" ? std::string(2000, 'x') : body);
  }

 private:
  ServerSession rpc_;
};

class UdpTest : public ::testing::Test, public Protocol {
 protected:
  UdpTest() : admission_(patient()) {}

  static AdmissionOptions patient() {
    AdmissionOptions options;
    options.credits.target_delay = Nanos::seconds(100);
    options.credits.refuse_delay = Nanos::seconds(200);
    return options;
  }
  void SetUp() override { start({}); }
  void start(const UdpOptions& options) {
    datapath_.reset();
    auto opened = UdpDatapath::open(UdpWire::open({}).value(), options, *this);
    ASSERT_TRUE(opened.ok());
    datapath_ = std::move(*opened);
    tokens_.clear();
    socket_ = Fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    const SocketAddress to = resolve("127.0.0.1", datapath_->port()).value();
    ASSERT_EQ(::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&to.storage), to.length),
              0);
    const timeval limit{0, 20'000};
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  }
  std::unique_ptr<Session> open(const Peer& peer) override {
    return std::make_unique<EchoSession>(admission_, peer.flow);
  }

  void send(const std::string& bytes) {
    ASSERT_EQ(::send(socket_.get(), bytes.data(), bytes.size(), 0),
              static_cast<ssize_t>(bytes.size()));
  }
  void send(const Message& message) { send(token_of(message.session) + framed(message)); }
  // As the server gives it.
  std::string token_of(uint32_t session) {
    std::string& token = tokens_[session];
    if (token.empty()) {
      send(kNoToken + framed({Kind::kHello, session, 0, 0, {}}));
      EXPECT_TRUE(hear());
      EXPECT_EQ(message_.kind, Kind::kToken);
      EXPECT_EQ(heard_.size(), kHeaderBytes);
      token.resize(kTokenBytes);
      encode_token(token.data(), message_.id);
    }
    return token;
  }
  void serve() {
    std::array<Request*, 8> burst{};
    const uint32_t n = datapath_->queue(WorkerId{0}).poll(burst);
    for (uint32_t i = 0; i < n; ++i) {
      for (Request* request = burst[i]; request != nullptr;) {
        static_cast<EchoSession*>(request->session)->run(*request);
        request = request->datapath->finish(*request);
      }
    }
  }
  // The next datagram that the server sends; false after a second without.
  bool hear() {
    for (int tries = 0; tries < 50; ++tries) {
      serve();
      char bytes[2048];
      const ssize_t n = ::recv(socket_.get(), bytes, sizeof bytes, 0);
      if (n < 0) continue;
      heard_.assign(bytes, static_cast<size_t>(n));
      const Decoded found = decode(heard_, Side::kServer);
      EXPECT_EQ(found.state, Decoded::State::kComplete);
      EXPECT_EQ(found.length, heard_.size());
      message_ = found.message;
      return true;
    }
    return false;
  }
  void expect_error(Fault fault) {
    ASSERT_TRUE(hear());
    EXPECT_EQ(message_.kind, Kind::kError);
    EXPECT_EQ(message_.amount, static_cast<uint32_t>(fault));
    EXPECT_EQ(heard_.size(), kHeaderBytes);
  }

  AdmissionController admission_;
  std::unique_ptr<UdpDatapath> datapath_;
  Fd socket_;
  std::string heard_;
  Message message_;
  const std::string kNoToken = std::string(kTokenBytes, '\0');
  std::map<uint32_t, std::string> tokens_;
};

TEST_F(UdpTest, a_session_is_opened_and_served) {
  send({Kind::kHello, 7, 0, 1, "a"});
  ASSERT_TRUE(hear());
  EXPECT_EQ(message_.kind, Kind::kWelcome);
  ASSERT_TRUE(hear());
  EXPECT_EQ(message_.kind, Kind::kResponse);
  EXPECT_EQ(message_.body, "a");
  send({Kind::kRequest, 7, 0, 2, "b"});
  ASSERT_TRUE(hear());
  EXPECT_EQ(message_.id, 2u);
  EXPECT_EQ(message_.body, "b");
  EXPECT_EQ(datapath_->stats().flows_open, 1u);
}

TEST_F(UdpTest, a_datagram_of_a_session_overtakes_the_one_before_it) {
  send({Kind::kHello, 7, 5, 0, {}});
  ASSERT_TRUE(hear());
  send({Kind::kRequest, 7, 0, 1, "first"});
  send({Kind::kRequest, 7, 0, 2, "second"});
  std::vector<Request*> both;
  std::array<Request*, 8> burst{};
  const Instant deadline = datapath_now() + Nanos::seconds(10);
  while (both.size() < 2 && datapath_now() < deadline) {
    const uint32_t n = datapath_->queue(WorkerId{0}).poll(burst);
    both.insert(both.end(), burst.begin(), burst.begin() + n);
  }
  ASSERT_EQ(both.size(), 2u);
  for (const size_t which : {1u, 0u}) {
    static_cast<EchoSession*>(both[which]->session)->run(*both[which]);
    EXPECT_EQ(both[which]->datapath->finish(*both[which]), nullptr);
    ASSERT_TRUE(hear());
    EXPECT_EQ(message_.id, which + 1);
  }
}

TEST_F(UdpTest, a_second_hello_asks_for_the_welcome_again) {
  for (int i = 0; i < 3; ++i) {
    send({Kind::kHello, 7, 0, 0, {}});
    ASSERT_TRUE(hear());
    EXPECT_EQ(message_.kind, Kind::kWelcome);
    EXPECT_GE(message_.amount, 1u);
  }
  EXPECT_EQ(admission_.pool().sessions(), 1);
}

TEST_F(UdpTest, sessions_of_one_address_are_told_apart) {
  send({Kind::kHello, 7, 0, 0, {}});
  ASSERT_TRUE(hear());
  send({Kind::kHello, 8, 0, 0, {}});
  ASSERT_TRUE(hear());
  EXPECT_EQ(message_.session, 8u);
  EXPECT_EQ(admission_.pool().sessions(), 2);
}

TEST_F(UdpTest, without_a_session_nothing_is_served) {
  send({Kind::kRequest, 7, 0, 1, "a"});
  expect_error(Fault::kNoSession);
  EXPECT_EQ(datapath_->drops().no_session, 1u);
}

TEST_F(UdpTest, who_does_not_have_the_token_opens_no_session) {
  send(kNoToken + framed({Kind::kHello, 7, 5, 1, "a"}));
  ASSERT_TRUE(hear());
  EXPECT_EQ(message_.kind, Kind::kToken);
  EXPECT_NE(message_.id, 0u);
  EXPECT_EQ(admission_.pool().sessions(), 0);
  const std::string of_another = token_of(8);
  send(of_another + framed({Kind::kHello, 7, 5, 1, "a"}));
  ASSERT_TRUE(hear());
  EXPECT_EQ(message_.kind, Kind::kToken);
  EXPECT_EQ(admission_.pool().sessions(), 0);
  EXPECT_EQ(datapath_->drops().no_token, 3u);
}

TEST_F(UdpTest, without_its_token_nothing_reaches_a_session) {
  send({Kind::kHello, 7, 0, 0, {}});
  ASSERT_TRUE(hear());
  EXPECT_EQ(message_.kind, Kind::kWelcome);
  send(kNoToken + framed({Kind::kRequest, 7, 0, 1, "forged"}));
  send(kNoToken + framed({Kind::kGoodbye, 7, 0, 0, {}}));
  send({Kind::kRequest, 7, 0, 2, "b"});
  ASSERT_TRUE(hear());
  EXPECT_EQ(message_.body, "b");
  EXPECT_EQ(admission_.pool().sessions(), 1);
  // A server that has started anew does not know the session.
  const std::string old = token_of(7);
  start({});
  send(old + framed({Kind::kRequest, 7, 0, 3, "c"}));
  expect_error(Fault::kNoSession);
}

TEST_F(UdpTest, goodbye_ends_the_session) {
  send({Kind::kHello, 7, 0, 0, {}});
  ASSERT_TRUE(hear());
  send({Kind::kGoodbye, 7, 0, 0, {}});
  serve();
  serve();
  EXPECT_EQ(admission_.pool().sessions(), 0);
  EXPECT_EQ(datapath_->stats().flows_open, 0u);
  send({Kind::kHello, 7, 0, 0, {}});
  ASSERT_TRUE(hear());
  EXPECT_EQ(message_.kind, Kind::kWelcome);
}

TEST_F(UdpTest, a_reply_that_does_not_fit_is_an_error_of_its_request) {
  send({Kind::kHello, 7, 0, 0, {}});
  ASSERT_TRUE(hear());
  send({Kind::kRequest, 7, 0, 3, "big"});
  ASSERT_TRUE(hear());
  EXPECT_EQ(message_.kind, Kind::kError);
  EXPECT_EQ(message_.id, 3u);
  EXPECT_EQ(message_.amount, static_cast<uint32_t>(Fault::kTooLarge));
}

TEST_F(UdpTest, what_is_no_frame_is_answered_with_no_more_than_it_had) {
  send("");
  send(std::string(10, 'x'));
  send(std::string(100, 'x'));
  send(kNoToken + framed({Kind::kHello, 7, 0, 0, {}}) + "and more");
  expect_error(Fault::kFields);
  std::string version = framed({Kind::kHello, 7, 0, 0, {}});
  version[2] = 9;
  send(kNoToken + version);
  expect_error(Fault::kVersion);
  EXPECT_EQ(datapath_->drops().malformed, 5u);
  EXPECT_EQ(datapath_->stats().flows_open, 0u);
}

TEST_F(UdpTest, more_sessions_than_are_taken_are_told_so) {
  UdpOptions options;
  options.max_flows = 1;
  start(options);
  send({Kind::kHello, 7, 0, 0, {}});
  ASSERT_TRUE(hear());
  send({Kind::kHello, 8, 0, 0, {}});
  expect_error(Fault::kSessions);
  EXPECT_EQ(datapath_->stats().flows_refused, 1u);
}

TEST_F(UdpTest, a_silent_session_times_out) {
  UdpOptions options;
  options.idle_timeout = Nanos::millis(1);
  start(options);
  send({Kind::kHello, 7, 0, 0, {}});
  ASSERT_TRUE(hear());
  const Instant deadline = datapath_now() + Nanos::seconds(10);
  while (admission_.pool().sessions() > 0 && datapath_now() < deadline) {
    datapath_->queue(WorkerId{0}).wait(Nanos::millis(5));
    serve();
  }
  EXPECT_EQ(admission_.pool().sessions(), 0);
}

TEST_F(UdpTest, the_limit_and_the_timeout_change_while_it_runs) {
  send({Kind::kHello, 1, 0, 0, {}});
  ASSERT_TRUE(hear());
  EXPECT_EQ(message_.kind, Kind::kWelcome);
  datapath_->set_max_flows(1);
  send({Kind::kHello, 2, 0, 0, {}});
  ASSERT_TRUE(hear());
  EXPECT_EQ(message_.kind, Kind::kError);
  EXPECT_EQ(message_.amount, static_cast<uint32_t>(Fault::kSessions));
  datapath_->set_idle_timeout(Nanos::millis(1));
  const Instant limit = datapath_now() + Nanos::seconds(60);
  while (datapath_->stats().flows_open > 0 && datapath_now() < limit) serve();
  EXPECT_EQ(datapath_->stats().flows_timed_out, 1u);
  datapath_->set_idle_timeout({});  // the default, not none
  send({Kind::kHello, 2, 0, 0, {}});
  ASSERT_TRUE(hear());
  EXPECT_EQ(message_.kind, Kind::kWelcome);
}

TEST_F(UdpTest, a_drained_session_is_told_of_its_credit_without_asking) {
  AdmissionAttachment attached(admission_, *datapath_);
  send({Kind::kHello, 7, 0, 1, "a"});
  std::array<Request*, 8> burst{};
  Request* request = nullptr;
  for (int i = 0; i < 1000 && request == nullptr; ++i) {
    if (datapath_->queue(WorkerId{0}).poll(burst) > 0) request = burst[0];
  }
  ASSERT_NE(request, nullptr);
  request->session->refuse(*request);  // as if the queues were full
  EXPECT_EQ(request->datapath->finish(*request), nullptr);
  ASSERT_TRUE(hear());
  EXPECT_EQ(message_.kind, Kind::kWelcome);
  ASSERT_TRUE(hear());
  EXPECT_EQ(message_.kind, Kind::kRefusal);
  EXPECT_EQ(message_.amount, 0u);
  ASSERT_TRUE(hear());
  EXPECT_EQ(message_.kind, Kind::kCredit);
  EXPECT_GE(message_.amount, 1u);
}

// On a wire where peers have Ethernet addresses and networks.
class UdpPeers : public UdpTest {
 protected:
  void SetUp() override {
    auto wire = std::make_unique<rubato::testing::MemoryWire>(1, rubato::testing::WireFaults{}, 1);
    wire_ = wire.get();
    datapath_ = UdpDatapath::open(std::move(wire), {}, *this).value();
    peer_.address = {10, 0, 0, 1};
    peer_.port = 5;
  }
  // The last frame that answers this one.
  Message exchange(const std::string& token, const Message& message) {
    wire_->put({peer_, token + framed(message)});
    serve();
    datapath_->queue(WorkerId{0}).push();
    while (wire_->take(peer_.port, heard_)) continue;
    const Decoded found = decode(heard_, Side::kServer);
    EXPECT_EQ(found.state, Decoded::State::kComplete);
    return found.message;
  }
  std::string greet() {
    std::string token(kTokenBytes, '\0');
    encode_token(token.data(), exchange(kNoToken, {Kind::kHello, 7, 0, 0, {}}).id);
    EXPECT_EQ(exchange(token, {Kind::kHello, 7, 0, 0, {}}).kind, Kind::kWelcome);
    return token;
  }

  rubato::testing::MemoryWire* wire_ = nullptr;
  DatagramPeer peer_;
};

TEST_F(UdpPeers, answers_go_to_the_ethernet_address_that_the_client_has_now) {
  peer_.mac = {2, 0, 0, 0, 0, 1};
  const std::string token = greet();
  peer_.mac = {2, 0, 0, 0, 0, 2};
  EXPECT_EQ(exchange(token, {Kind::kRequest, 7, 0, 1, "a"}).body, "a");
  EXPECT_EQ(wire_->taken_from.mac, peer_.mac);
  EXPECT_EQ(admission_.pool().sessions(), 1);
}

TEST_F(UdpPeers, one_address_on_two_networks_is_two_clients) {
  const std::string token = greet();
  for (const bool by_vlan : {false, true}) {
    by_vlan ? peer_.vlan = 3 : peer_.scope = 2;
    EXPECT_EQ(exchange(token, {Kind::kRequest, 7, 0, 1, "a"}).kind, Kind::kError);
    EXPECT_NE(greet(), token);
  }
  EXPECT_EQ(admission_.pool().sessions(), 3);
}

TEST_F(UdpPeers, packets_of_any_priority_are_of_one_session) {
  peer_.vlan = 3;
  const std::string token = greet();
  peer_.vlan = 0xa003;
  EXPECT_EQ(exchange(token, {Kind::kRequest, 7, 0, 1, "a"}).body, "a");
  EXPECT_EQ(wire_->taken_from.vlan, peer_.vlan);
  EXPECT_EQ(admission_.pool().sessions(), 1);
}

TEST_F(UdpTest, whatever_comes_the_server_goes_on) {
  Prng dice(1);
  const std::vector<std::string> tokens = {token_of(1), token_of(2), token_of(3)};
  for (int round = 0; round < 3000; ++round) {
    std::string bytes = framed({static_cast<Kind>(1 + dice.below(4)), 1 + dice.below(3),
                                dice.below(5), dice.below(2), dice.below(2) == 0 ? "body" : ""});
    for (uint32_t edits = dice.below(4); edits > 0; --edits) {
      bytes[dice.below(static_cast<uint32_t>(bytes.size()))] = static_cast<char>(dice.next());
    }
    send((dice.below(4) == 0 ? kNoToken : tokens.at(dice.below(3))) + bytes);
    serve();
  }
  serve();
  // Answers to all of it may wait for us.
  char ignored[2048];
  while (::recv(socket_.get(), ignored, sizeof ignored, MSG_DONTWAIT) >= 0) continue;
  send({Kind::kHello, 99, 0, 0, {}});
  ASSERT_TRUE(hear());
  EXPECT_EQ(message_.session, 99u);
}

}  // namespace
}  // namespace rubato::rpc
