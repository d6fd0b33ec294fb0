// SPDX-License-Identifier: Apache-2.0
//
// Framing::kRpc: what an application writes for another framing runs behind Rubato RPC.
#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>

#include <rubato/rubato.hpp>

#include "rpc/frames.h"

namespace rubato {
namespace {

using rpc::Decoded;
using rpc::Kind;

// A server in a thread of its own, and one client's connection to it.
class RpcFraming : public ::testing::Test {
 protected:
  void start(Application app, Options options = {}) {
    app.framing = Framing::kRpc;
    options.transport = Transport::kLoopback;
    options.rpc_target_delay = std::chrono::seconds(60);  // a slow test is no overload
    auto created = Server::create(options, std::move(app));
    ASSERT_TRUE(created.ok()) << created.error();
    server_ = std::make_unique<Server>(std::move(*created));
    thread_ = std::thread([this] { EXPECT_TRUE(server_->run().ok()); });
    client_ = std::make_unique<LoopbackClient>(*server_);
  }
  void TearDown() override {
    client_.reset();
    if (server_ == nullptr) return;
    server_->stop();
    thread_.join();
  }

  void send(const rpc::Message& message) {
    std::string bytes;
    rpc::encode(bytes, message);
    ASSERT_TRUE(client_->send(bytes));
  }
  // The next frame; its body lives until the call after.
  rpc::Message hear() {
    bytes_ = client_->receive(rpc::kHeaderBytes);
    const Decoded head = rpc::decode(bytes_, rpc::Side::kServer);
    if (head.length > bytes_.size()) bytes_ += client_->receive(head.length - bytes_.size());
    const Decoded found = rpc::decode(bytes_, rpc::Side::kServer);
    EXPECT_EQ(found.state, Decoded::State::kComplete);
    return found.message;
  }
  void hello() {
    send({Kind::kHello, 7, 0, 0, {}});
    ASSERT_EQ(hear().kind, Kind::kWelcome);
  }

  std::unique_ptr<Server> server_;
  std::thread thread_;
  std::unique_ptr<LoopbackClient> client_;
  std::string bytes_;
};

Application echo() {
  Application app;
  app.handle = [](Request& request) {
    if (request.payload() == "fail") request.fail();
    if (request.payload() == "throw") throw std::runtime_error("no");
    request.reply("<");
    request.reply(request.payload());
    request.reply(">");
  };
  return app;
}

TEST_F(RpcFraming, a_handler_sees_bodies_and_replies_with_one) {
  start(echo());
  hello();
  for (uint64_t id = 1; id < 50; ++id) {
    send({Kind::kRequest, 7, 0, id, "body"});
    const rpc::Message answer = hear();
    ASSERT_EQ(answer.kind, Kind::kResponse);
    EXPECT_EQ(answer.id, id);
    EXPECT_EQ(answer.body, "<body>");
    EXPECT_GE(answer.amount, 1u);
  }
}

TEST_F(RpcFraming, what_fails_leaves_the_session_open) {
  start(echo());
  hello();
  for (const std::string_view bad : {"fail", "throw"}) {
    send({Kind::kRequest, 7, 0, 1, bad});
    const rpc::Message answer = hear();
    EXPECT_EQ(answer.kind, Kind::kError);
    EXPECT_EQ(answer.id, 1u);
  }
  send({Kind::kRequest, 7, 0, 2, "good"});
  EXPECT_EQ(hear().body, "<good>");
}

TEST_F(RpcFraming, a_loop_serves_it_too) {
  Application app;
  app.loop = [] {
    while (Request request = rubato::recv()) {
      request.reply(request.payload());
      rubato::send(request);
    }
  };
  start(std::move(app));
  send({Kind::kHello, 7, 0, 1, "first"});
  EXPECT_EQ(hear().kind, Kind::kWelcome);
  EXPECT_EQ(hear().body, "first");
  send({Kind::kDemand, 7, 3, 0, {}});
  EXPECT_EQ(hear().kind, Kind::kCredit);
  send({Kind::kRequest, 7, 0, 2, "second"});
  EXPECT_EQ(hear().body, "second");
}

// More of them than are answered on arrival go through the application's loop.
TEST_F(RpcFraming, many_frames_with_nothing_to_run_are_all_answered) {
  start(echo());
  hello();
  std::string bytes;
  for (int i = 0; i < 1000; ++i) rpc::encode(bytes, {Kind::kDemand, 7, 1, 0, {}});
  ASSERT_TRUE(client_->send(bytes));
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(hear().kind, Kind::kCredit);
}

TEST_F(RpcFraming, what_is_no_frame_is_an_error_and_the_end) {
  start(echo());
  ASSERT_TRUE(client_->send("GET / HTTP/1.1\r\n\r\n"));
  const rpc::Message answer = hear();
  EXPECT_EQ(answer.kind, Kind::kError);
  EXPECT_EQ(answer.amount, static_cast<uint32_t>(rpc::Fault::kMagic));
  EXPECT_EQ(client_->receive(1), "");
}

TEST_F(RpcFraming, one_address_has_no_more_sessions_than_it_may) {
  Options options;
  options.sessions_per_address = 1;
  start(echo(), options);
  hello();
  std::string bytes;
  rpc::encode(bytes, {Kind::kHello, 8, 0, 0, {}});
  LoopbackClient second(*server_);
  ASSERT_TRUE(second.send(bytes));
  const std::string refusal = second.receive(1000);
  const Decoded found = rpc::decode(refusal, rpc::Side::kServer);
  ASSERT_EQ(found.state, Decoded::State::kComplete);
  EXPECT_EQ(found.message.kind, Kind::kError);
  EXPECT_EQ(found.message.amount, static_cast<uint32_t>(rpc::Fault::kSessions));
  Kind answer = Kind::kError;
  while (answer == Kind::kError) {  // the first session ends a moment after its connection
    client_ = std::make_unique<LoopbackClient>(*server_);
    ASSERT_TRUE(client_->send(bytes));
    answer = hear().kind;
  }
  EXPECT_EQ(answer, Kind::kWelcome);
}

TEST(RpcOptions, control_overload_by_themselves) {
  Options options;
  options.overload = Overload::kAqm;
  Application app = echo();
  app.framing = Framing::kRpc;
  const auto server = Server::create(options, std::move(app));
  ASSERT_FALSE(server.ok());
  EXPECT_EQ(server.error().find("overload: RUBATO_FRAMING_RPC"), 0u);
}

TEST(RpcOptions, a_target_delay_that_cannot_be_is_refused) {
  Options options;
  options.rpc_target_delay = std::chrono::nanoseconds(5);
  Application app = echo();
  app.framing = Framing::kRpc;
  const auto server = Server::create(options, std::move(app));
  ASSERT_FALSE(server.ok());
  EXPECT_EQ(server.error().find("rpc_target_delay"), 0u);
}

}  // namespace
}  // namespace rubato
