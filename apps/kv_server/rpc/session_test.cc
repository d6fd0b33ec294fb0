// SPDX-License-Identifier: Apache-2.0
#include "kv_server/rpc/session.h"

#include <gtest/gtest.h>

#include "kv_server/testing/harness.h"

namespace rubato::kv {
namespace {

using rpc::Kind;
using testing::bulk;
using testing::Harness;
using Words = std::vector<std::string>;

constexpr uint32_t kSession = 7;

rpc::AdmissionOptions waiting_up_to(Nanos refuse_delay) {
  rpc::AdmissionOptions options;
  options.credits.target_delay = refuse_delay / 2;
  options.credits.refuse_delay = refuse_delay;
  return options;
}

KvOptions with_rpc(KvOptions options = {}) {
  options.ports.push_back(Speaks::kRpc);
  return options;
}

std::string command(const Words& words) {
  std::string bytes = "*" + std::to_string(words.size()) + "\r\n";
  for (const std::string& word : words) bytes += bulk(word);
  return bytes;
}

struct Said {
  rpc::Message message;
  std::string body;
};

// One connection of the RPC port.
class RpcClient {
 public:
  RpcClient(KvApplication& app, uint64_t flow) : client_(app, flow, 1) {}
  RpcClient(KvApplication& app, std::unique_ptr<Session> session)
      : client_(app, std::move(session)) {}

  std::vector<Said> send(const rpc::Message& message) {
    std::string bytes;
    rpc::encode(bytes, message);
    std::string answer = client_.send(bytes);
    std::vector<Said> said;
    for (std::string_view rest = answer; !rest.empty();) {
      const rpc::Decoded found = rpc::decode(rest, rpc::Side::kServer);
      if (found.state != rpc::Decoded::State::kComplete) break;
      said.push_back({found.message, std::string(found.message.body)});
      rest.remove_prefix(found.length);
    }
    return said;
  }
  void hello() { EXPECT_EQ(send({Kind::kHello, kSession, 0, 0, {}}).size(), 1u); }
  std::vector<Said> request(std::string_view body) {
    return send({Kind::kRequest, kSession, 0, ++id_, body});
  }
  // The reply to one command; of what is no response, "KIND amount".
  std::string call(const Words& words) { return raw_call(command(words)); }
  std::string raw_call(std::string_view body) {
    const std::vector<Said> said = request(body);
    if (said.empty() || said[0].message.id != id_) return "no answer";
    if (said[0].message.kind == Kind::kResponse) return said[0].body;
    return (said[0].message.kind == Kind::kRefusal ? "reject " : "error ") +
           std::to_string(said[0].message.amount);
  }

  testing::Client& link() { return client_; }

 private:
  testing::Client client_;
  uint64_t id_ = 0;
};

class RpcKv : public ::testing::Test {
 protected:
  explicit RpcKv(const KvOptions& options = {})
      : admission_(waiting_up_to(Nanos::seconds(1000))),
        harness_(with_rpc(options), &admission_),
        client_(harness_.app, 2) {
    client_.hello();
  }

  rpc::AdmissionController admission_;
  Harness harness_;
  RpcClient client_;
};

TEST_F(RpcKv, a_command_may_come_with_the_hello) {
  RpcClient other(harness_.app, 3);
  const auto said = other.send({Kind::kHello, 9, 0, 4, command({"SET", "k", "v"})});
  ASSERT_EQ(said.size(), 2u);
  EXPECT_EQ(said[0].message.kind, Kind::kWelcome);
  EXPECT_EQ(said[1].message.kind, Kind::kResponse);
  EXPECT_EQ(said[1].message.id, 4u);
  EXPECT_GE(said[1].message.amount, 1u);
  EXPECT_EQ(said[1].body, "+OK\r\n");
}

TEST_F(RpcKv, replies_and_errors_are_those_of_resp) {
  Harness resp;
  const std::vector<Words> commands{
      {"SET", "a", "1"}, {"get", "a"}, {"INCR", "a"}, {"GET", "none"}, {"MSET", "b", "2", "c", "3"},
      {"MGET", "a", "b", "none"}, {"RANGE", "-", "+"}, {"KEYS", "*"}, {"SCAN", "0"}, {"GET"},
      {"APPEND", "b", "x"}, {"INCR", "b"}, {"SELECT", "1"}, {"SELECT", "0"}, {"MULTI"}, {"PING"},
      {"POST", "x"}, {"HELLO", "4"}, {"HELLO", "3"}, {"GET", "none"}, {"CONFIG", "NONSENSE"},
      {"CLIENT", "SETNAME", "me"}, {"CLIENT", "GETNAME"}, {"RESET"}, {"CLIENT", "GETNAME"}, {}};
  for (const Words& words : commands) {
    const bool http = !words.empty() && words[0] == "POST";  // by which RESP ends the connection
    const std::string expected = http ? "-ERR unknown command 'POST', with args beginning with: "
                                        "'x' \r\n"
                                      : resp.call(words);
    if (!words.empty() && words[0] == "HELLO" && words[1] == "3") {
      EXPECT_EQ(client_.call(words).substr(0, 5), expected.substr(0, 5));  // then the client's id
      continue;
    }
    EXPECT_EQ(client_.call(words), expected) << (words.empty() ? "" : words[0]);
  }
}

TEST_F(RpcKv, what_is_not_one_whole_command_is_an_error_and_the_session_goes_on) {
  for (const std::string_view body :
       {"", "*1\r\n$4\r\nPI", "*1\r\n$4\r\nPING\r\n*1\r\n", "*1\r\n:4\r\n", "*x\r\n", "\0\0\0",
        "*2\r\n$4\r\nPING\r\n"}) {
    EXPECT_EQ(client_.raw_call(body).substr(0, 20), "-ERR Protocol error:") << body;
    EXPECT_EQ(client_.call({"PING"}), "+PONG\r\n");
  }
  EXPECT_FALSE(client_.link().closed());
  EXPECT_EQ(client_.raw_call("PING\r\n"), "+PONG\r\n");  // an inline command is a command
  EXPECT_EQ(harness_.app.server().errors().total(), 7u);
}

TEST_F(RpcKv, what_resp_does_not_answer_is_an_empty_response) {
  EXPECT_EQ(client_.call({"CLIENT", "REPLY", "SKIP"}), "");
  EXPECT_EQ(client_.call({"SET", "k", "v"}), "");
  EXPECT_EQ(client_.call({"GET", "k"}), bulk("v"));
  EXPECT_EQ(client_.call({"CLIENT", "REPLY", "OFF"}), "");
  EXPECT_EQ(client_.call({"GET", "k"}), "");
  EXPECT_EQ(client_.call({"CLIENT", "REPLY", "ON"}), "+OK\r\n");
}

TEST_F(RpcKv, quit_is_answered_and_ends_the_session) {
  EXPECT_EQ(client_.call({"QUIT"}), "+OK\r\n");
  EXPECT_TRUE(client_.link().closed());
}

TEST_F(RpcKv, wrong_frames_end_the_session) {
  const auto said = client_.send({Kind::kRequest, kSession + 1, 0, 1, command({"PING"})});
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said[0].message.kind, Kind::kError);
  EXPECT_EQ(said[0].message.id, 0u);
  EXPECT_TRUE(client_.link().closed());
  EXPECT_EQ(admission_.pool().sessions(), 0);
}

TEST_F(RpcKv, a_refused_request_is_rejected_and_counts_as_its_commands) {
  client_.call({"PING"});
  client_.link().refuse_next();
  EXPECT_EQ(client_.call({"GET", "k"}).substr(0, 6), "reject");
  Server& server = harness_.app.server();
  EXPECT_EQ(server.calls().refused(command_table().find("get")), 1u);
  EXPECT_EQ(server.errors().snapshot().at("OVERLOADED"), 1u);
  EXPECT_EQ(client_.call({"GET", "k"}), "$-1\r\n");
  admission_.tick(now());  // it adds up what the workers have counted
  EXPECT_EQ(admission_.pool().pending(), 0);
}

TEST_F(RpcKv, of_a_transaction_whose_multi_was_rejected_nothing_runs) {
  client_.call({"PING"});
  client_.link().refuse_next();
  EXPECT_EQ(client_.call({"MULTI"}).substr(0, 6), "reject");
  EXPECT_EQ(client_.call({"SET", "k", "v"}).substr(0, 1), "-");
  EXPECT_EQ(client_.call({"EXEC"}).substr(0, 10), "-EXECABORT");
  EXPECT_EQ(client_.call({"GET", "k"}), "$-1\r\n");
}

TEST_F(RpcKv, a_muted_request_that_is_refused_is_rejected_all_the_same) {
  client_.call({"CLIENT", "REPLY", "OFF"});
  client_.link().refuse_next();
  EXPECT_EQ(client_.call({"GET", "k"}).substr(0, 6), "reject");
}

TEST(RpcKvOverload, what_comes_while_others_wait_is_rejected_and_counts_as_its_commands) {
  rpc::AdmissionController admission(waiting_up_to(Nanos::millis(1)));
  Harness harness(with_rpc(), &admission);
  rpc::AdmittedSession other(99);
  rpc::QueuedRequest waiting;
  admission.open(other, 0, now());
  admission.arrived(other, waiting, 0, now() - Nanos::seconds(1), now());
  admission.tick(now());  // it publishes how long requests wait
  RpcClient client(harness.app, 2);
  client.hello();
  const auto said = client.request(command({"GET", "k"}));
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said[0].message.kind, Kind::kRefusal);
  EXPECT_EQ(rpc::decode_refusal(said[0].body).of_class, rpc::kShortClass);
  EXPECT_EQ(harness.app.server().calls().refused(command_table().find("get")), 1u);
  admission.withdraw(waiting);
  admission.close(other);
}

class SmallReplies : public RpcKv {
 protected:
  SmallReplies() : RpcKv(options()) {}
  static KvOptions options() {
    KvOptions options;
    options.max_reply_bytes = 64;
    return options;
  }
};

TEST_F(SmallReplies, a_reply_over_the_limit_fails_its_request_alone) {
  client_.call({"SET", "k", std::string(2000, 'x')});
  EXPECT_EQ(client_.call({"GET", "k"}),
            "error " + std::to_string(static_cast<uint32_t>(rpc::Fault::kTooLarge)));
  EXPECT_EQ(client_.call({"KEYS", "*"}), "*1\r\n" + bulk("k"));
  EXPECT_EQ(client_.call({"RANGE", "-", "+"}).substr(0, 15), "-ERR the reply ");
  admission_.tick(now());  // it adds up what the workers have counted
  EXPECT_EQ(admission_.pool().pending(), 0);
}

struct WithAccount {
  MemoryAccount account_;
};

// Sessions whose replies have to fit in a datagram.
class OverUdp : protected WithAccount, public RpcKv {
 protected:
  OverUdp()
      : RpcKv(options(account_)),
        port_(harness_.app.server(), admission_),
        udp_(harness_.app, port_.open({3, "127.0.0.1:4711", 0})) {
    udp_.hello();
  }
  static KvOptions options(MemoryAccount& account) {
    KvOptions options;
    options.memory = &account;
    return options;
  }
  const std::string too_large_ =
      "error " + std::to_string(static_cast<uint32_t>(rpc::Fault::kTooLarge));

  RpcDatagramPort port_;
  RpcClient udp_;
};

TEST_F(OverUdp, a_reply_that_does_not_fit_leaves_no_memory_with_its_session) {
  harness_.call({"SET", "long", std::string(8 << 20, 'x')});
  harness_.call({"SET", "fits", std::string(1000, 'x')});
  const uint64_t before = account_.buffers();
  EXPECT_EQ(udp_.call({"GET", "long"}), too_large_);
  EXPECT_LE(account_.buffers(), before + 4096);
  EXPECT_EQ(udp_.call({"GET", "fits"}).size(), 1009u);
}

TEST_F(OverUdp, the_longest_reply_is_that_of_a_datagram) {
  constexpr size_t kFrame = rpc::kMaxDatagramBytes - rpc::kHeaderBytes;
  harness_.call({"SET", "k", std::string(kFrame - 9, 'x')});
  EXPECT_EQ(udp_.call({"GET", "k"}).size(), kFrame);
  harness_.call({"APPEND", "k", "x"});
  EXPECT_EQ(udp_.call({"GET", "k"}), too_large_);
}

TEST_F(OverUdp, lists_report_the_limit_of_a_datagram) {
  for (int i = 0; i < 200; ++i) harness_.call({"SET", "key:" + std::to_string(i), "v"});
  for (const Words& words : {Words{"KEYS", "*"}, Words{"RANGE", "-", "+"},
                             Words{"SCAN", "0", "COUNT", "1000"}}) {
    EXPECT_EQ(udp_.call(words).substr(0, 28), "-ERR the reply would exceed ") << words[0];
  }
  EXPECT_EQ(udp_.call({"SCAN", "0", "COUNT", "20"}).substr(0, 2), "*2");
}

// The reply fails, not the command.
TEST_F(OverUdp, a_command_whose_reply_does_not_fit_has_run) {
  harness_.call({"SET", "k", std::string(3000, 'x')});
  EXPECT_EQ(udp_.call({"GETDEL", "k"}), too_large_);
  EXPECT_EQ(harness_.call({"EXISTS", "k"}), ":0\r\n");
}

class WithPassword : public RpcKv {
 protected:
  WithPassword() : RpcKv(options()) {}
  static KvOptions options() {
    KvOptions options;
    options.requirepass = "secret";
    return options;
  }
};

TEST_F(WithPassword, a_session_authenticates_as_a_connection_does) {
  EXPECT_EQ(client_.call({"GET", "k"}), "-NOAUTH Authentication required.\r\n");
  EXPECT_EQ(client_.call({"AUTH", "wrong"}).substr(0, 10), "-WRONGPASS");
  EXPECT_EQ(client_.call({"AUTH", "secret"}), "+OK\r\n");
  EXPECT_EQ(client_.call({"SET", "k", std::string(1 << 20, 'x')}), "+OK\r\n");
  EXPECT_EQ(client_.call({"GET", "k"}).size(), (1u << 20) + 12);
}

TEST_F(WithPassword, who_is_not_known_may_send_little) {
  const auto said = client_.request(command({"SET", "k", std::string(1 << 20, 'x')}));
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said[0].message.kind, Kind::kError);
  EXPECT_EQ(said[0].message.amount, static_cast<uint32_t>(rpc::Fault::kTooLarge));
  EXPECT_TRUE(client_.link().closed());
}

}  // namespace
}  // namespace rubato::kv
