// SPDX-License-Identifier: Apache-2.0
#include "kv_server/memcached/datagrams.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "datapath/datagram_datapath.h"
#include "datapath/testing/memory_wire.h"
#include "kv_server/testing/harness.h"

namespace rubato::kv {
namespace {

using rubato::testing::MemoryWire;
using testing::Harness;

constexpr uint16_t kClient = 4711;

std::string header(int id, int number, int count) {
  std::string bytes;
  for (const int word : {id, number, count, 0}) {
    bytes.push_back(static_cast<char>(word >> 8));
    bytes.push_back(static_cast<char>(word));
  }
  return bytes;
}

class MemcachedDatagramsTest : public ::testing::Test {
 protected:
  MemcachedDatagramsTest() : harness_(options()), port_(harness_.app.server()) {
    auto wire = std::make_unique<MemoryWire>(1, rubato::testing::WireFaults{}, 1);
    wire_ = wire.get();
    datapath_ = DatagramDatapath::open(std::move(wire), port_, port_).value();
    peer_.address = {127, 0, 0, 1};
    peer_.port = kClient;
  }
  ~MemcachedDatagramsTest() override { EXPECT_EQ(wire_->lent, 0); }

  static KvOptions options() {
    KvOptions options;
    options.ports = {Speaks::kResp, Speaks::kMemcached};
    options.memcached_udp = true;
    return options;
  }

  // Sends a datagram and returns those that answer it.
  std::vector<std::string> exchange(const std::string& datagram) {
    wire_->put({peer_, datagram});
    std::array<Request*, 4> burst{};
    DatapathQueue& queue = datapath_->queue(WorkerId{0});
    while (const uint32_t n = queue.poll(burst)) {
      for (uint32_t i = 0; i < n; ++i) {
        burst[i]->cancelled = cancels_;
        refuses_ ? burst[i]->session->refuse(*burst[i]) : harness_.app.handle(*burst[i]);
        burst[i]->datapath->finish(*burst[i]);
      }
    }
    queue.push();
    std::vector<std::string> heard;
    for (std::string bytes; wire_->take(kClient, bytes);) heard.push_back(std::exchange(bytes, {}));
    return heard;
  }
  // The reply to commands in one datagram, put together; "" = none.
  std::string ask(const std::string& commands) {
    const int id = next_id_++;
    const std::vector<std::string> parts = exchange(header(id, 0, 1) + commands);
    std::string whole;
    for (size_t i = 0; i < parts.size(); ++i) {
      const auto count = static_cast<int>(parts.size());
      EXPECT_EQ(parts[i].substr(0, 8), header(id, static_cast<int>(i), count));
      EXPECT_LE(parts[i].size(), kMostUdpDatagramBytes);
      whole += parts[i].substr(8);
    }
    return whole;
  }
  uint64_t dropped() const { return datapath_->drops().no_request; }

  Harness harness_;
  MemcachedDatagramPort port_;
  std::unique_ptr<DatagramDatapath> datapath_;
  MemoryWire* wire_ = nullptr;
  DatagramPeer peer_;
  bool refuses_ = false;
  bool cancels_ = false;
  int next_id_ = 0xfffe;
};

TEST_F(MemcachedDatagramsTest, commands_are_answered_as_over_tcp) {
  testing::Client tcp(harness_.app, 2, 1);
  EXPECT_EQ(ask("set k 5 0 5\r\nhello\r\n"), "STORED\r\n");
  EXPECT_EQ(ask("get k missing\r\n"), "VALUE k 5 5\r\nhello\r\nEND\r\n");
  next_id_ = 1;
  for (const std::string command :
       {"get k\r\n", "mg k v f\r\n", "incr k 1\r\n", "ma n v\r\n", "touch k 0\r\n", "me k\r\n",
        "version\r\n", "mn\r\n", "md gone\r\n", "bogus\r\n", "get\r\n", "verbosity 1\r\n",
        "cas k 0 0 1 1\r\nx\r\n", "mg k bad!\r\n", "set k 0 0 3\r\nlonger\r\n"}) {
    EXPECT_EQ(ask(command), tcp.send(command)) << command;
  }
}

TEST_F(MemcachedDatagramsTest, quiet_commands_and_noreply_leave_no_datagram) {
  EXPECT_EQ(ask("set a 0 0 1 noreply\r\n1\r\n"), "");
  EXPECT_EQ(ask("ms b 1 q\r\n2\r\n"), "");
  EXPECT_EQ(ask("mg missing v q\r\n"), "");
  EXPECT_EQ(ask("set c 0 0 10 noreply\r\ncut"), "");
  EXPECT_EQ(ask("get a b c\r\n"), "VALUE a 0 1\r\n1\r\nVALUE b 0 1\r\n2\r\nEND\r\n");
  EXPECT_EQ(datapath_->stats().requests, 5u);
}

TEST_F(MemcachedDatagramsTest, commands_of_one_datagram_run_in_order_and_share_a_reply) {
  EXPECT_EQ(ask("set a 0 0 1\r\n1\r\nincr a 4\r\nmg b v q\r\nmg a v\r\nmn\r\n"),
            "STORED\r\n5\r\nVA 1\r\n5\r\nMN\r\n");
  EXPECT_EQ(ask("get a\r\nquit\r\nget a\r\n"), "VALUE a 0 1\r\n5\r\nEND\r\n");
  EXPECT_EQ(ask("mn\r\nget a"), "MN\r\nCLIENT_ERROR bad command line format\r\n");
}

TEST_F(MemcachedDatagramsTest, what_is_cut_short_gets_an_error_and_leaves_nothing_behind) {
  EXPECT_EQ(ask("get a"), "CLIENT_ERROR bad command line format\r\n");
  EXPECT_EQ(ask("set a 0 0 100\r\nabc"), "CLIENT_ERROR bad data chunk\r\n");
  EXPECT_EQ(ask("set a 0 0 2000000\r\nabc"), "SERVER_ERROR object too large for cache\r\n");
  EXPECT_EQ(ask("get a\r\n"), "END\r\n");
}

TEST_F(MemcachedDatagramsTest, a_long_reply_has_several_datagrams_and_the_longest_is_an_error) {
  testing::Client tcp(harness_.app, 2, 1);
  const auto store = [&](size_t size) {
    tcp.send("set k 0 0 " + std::to_string(size) + "\r\n" + std::string(size, 'x') + "\r\n");
  };
  for (const size_t size : {1000u, 1368u, 1369u, 1370u, 5000u, 60'000u}) {
    store(size);
    EXPECT_EQ(ask("get k\r\n"), tcp.send("get k\r\n")) << size;
  }
  store(kMostUdpReplyBytes);
  EXPECT_EQ(ask("get k\r\n"), "SERVER_ERROR reply too large for UDP\r\n");
  EXPECT_EQ(ask("mn\r\n"), "MN\r\n");
}

TEST_F(MemcachedDatagramsTest, a_request_of_several_datagrams_gets_one_error) {
  const std::vector<std::string> heard = exchange(header(7, 0, 2) + "set k 0 0 3000\r\nabc");
  ASSERT_EQ(heard.size(), 1u);
  EXPECT_EQ(heard[0], header(7, 0, 1) + "SERVER_ERROR multi-packet request not supported\r\n");
  EXPECT_TRUE(exchange(header(7, 1, 2) + "rest\r\n").empty());
  EXPECT_EQ(dropped(), 1u);
}

// Two servers, or one and itself, would answer each other for ever.
TEST_F(MemcachedDatagramsTest, no_reply_is_a_request) {
  testing::Client(harness_.app, 2, 1).send("set k 0 0 3000\r\nget " + std::string(2994, ' ') +
                                           "\r\n\r\n");
  uint64_t replies = 0;
  for (const std::string command :
       {"get k\r\n", "gets k\r\n", "set n 0 0 1\r\n1\r\n", "incr n 1\r\n", "mg k v\r\n", "mn\r\n",
        "version\r\n", "stats\r\n", "bogus\r\n", "get", "me k\r\n", "delete n\r\n", "delete n\r\n",
        "set k 0 0 1\r\nlong\r\n", "flush_all 1000\r\n"}) {
    for (const std::string& reply : exchange(header(1, 0, 1) + command)) {
      ++replies;
      EXPECT_TRUE(exchange(reply).empty()) << command;
    }
  }
  EXPECT_GE(replies, 15u);
  EXPECT_EQ(dropped(), replies);
}

TEST_F(MemcachedDatagramsTest, what_has_no_header_or_no_command_is_dropped) {
  for (const std::string& datagram :
       {std::string(), std::string("get k\r\n"), header(1, 0, 1), header(1, 0, 1) + "\r\n",
        header(1, 0, 1) + "GET / HTTP/1.1\r\n"}) {
    EXPECT_TRUE(exchange(datagram).empty());
  }
  EXPECT_EQ(dropped(), 5u);
}

TEST_F(MemcachedDatagramsTest, protected_mode_serves_this_machine_alone) {
  peer_.address = {10, 0, 0, 1};
  EXPECT_EQ(ask("mn\r\n"), "");
  EXPECT_EQ(datapath_->drops().not_served, 1u);
  EXPECT_EQ(harness_.call({"CONFIG", "SET", "protected-mode", "no"}), "+OK\r\n");
  EXPECT_EQ(ask("mn\r\n"), "MN\r\n");
  harness_.call({"CONFIG", "SET", "protected-mode", "yes"});
  peer_.ipv6 = true;
  peer_.address = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1};
  EXPECT_EQ(ask("mn\r\n"), "MN\r\n");
  peer_.address[12] = 10;
  EXPECT_EQ(ask("mn\r\n"), "");
  peer_.address = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  EXPECT_EQ(ask("mn\r\n"), "MN\r\n");
  EXPECT_NE(harness_.call({"CONFIG", "SET", "requirepass", "secret"}), "+OK\r\n");
}

TEST_F(MemcachedDatagramsTest, each_command_counts_by_verb) {
  ask("set k 0 0 1\r\nv\r\nget k\r\nget none\r\n");
  EXPECT_EQ(ask("incr none 1 noreply\r\n"), "");
  const std::string shown = testing::Client(harness_.app, 2, 1).send("stats\r\n");
  for (const char* const line : {"cmd_set 1", "get_hits 1", "get_misses 1", "incr_misses 1"}) {
    EXPECT_NE(shown.find(std::string("STAT ") + line + "\r\n"), std::string::npos) << line;
  }
}

TEST_F(MemcachedDatagramsTest, a_refusal_is_a_reply) {
  refuses_ = true;
  EXPECT_TRUE(ask("get k\r\n").starts_with("SERVER_ERROR overloaded short retry-after-ms "));
  EXPECT_EQ(ask("set k 0 0 1 noreply\r\n1\r\n"), "");
}

TEST_F(MemcachedDatagramsTest, a_refusal_is_of_every_command_of_the_datagram) {
  refuses_ = true;
  const std::string reply = ask("set k 0 0 1 noreply\r\n1\r\nget k\r\nget k\r\n");
  EXPECT_TRUE(reply.starts_with("SERVER_ERROR overloaded short retry-after-ms "));
  EXPECT_EQ(reply.find('\n'), reply.size() - 1);  // one line for all
  EXPECT_EQ(ask("set k 0 0 1 noreply\r\n1\r\nset k 0 0 1 noreply\r\n1\r\n"), "");
  Server& server = harness_.app.server();
  EXPECT_EQ(server.calls().refused(command_table().find("set")), 3u);
  EXPECT_EQ(server.calls().refused(command_table().find("get")), 2u);
  EXPECT_EQ(server.errors().snapshot().at("OVERLOADED"), 5u);
}

TEST_F(MemcachedDatagramsTest, an_error_of_the_whole_is_heard_by_any_command_that_wants_a_reply) {
  const std::vector<std::string> heard =
      exchange(header(7, 0, 2) + "set k 0 0 1 noreply\r\n1\r\nget k\r\n");
  EXPECT_EQ(heard.size(), 1u);
  EXPECT_TRUE(exchange(header(7, 0, 2) + "set k 0 0 1 noreply\r\n1\r\n").empty());
}

TEST_F(MemcachedDatagramsTest, commands_behind_the_first_and_what_is_cut_short_count) {
  ask("set k 0 0 1\r\n1\r\nget k\r\nget k\r\nget k");
  Server& server = harness_.app.server();
  EXPECT_EQ(server.calls().calls(command_table().find("get"), 0), 2u);
  EXPECT_EQ(server.calls().calls(command_table().find("set"), 1), 1u);  // the host counts the first
  EXPECT_EQ(server.errors().snapshot().at("CLIENT_ERROR"), 1u);
}

// What has run of the datagram has run; nobody is told that the rest has.
TEST_F(MemcachedDatagramsTest, a_cancelled_request_ends_with_an_error) {
  cancels_ = true;
  EXPECT_EQ(ask("set a 0 0 1\r\n1\r\nset b 0 0 1\r\n2\r\n"),
            "SERVER_ERROR cancelled, may have run\r\n");
  EXPECT_EQ(ask("set c 0 0 1 noreply\r\n1\r\n"), "");
  EXPECT_EQ(ask("set c 0 0 1 noreply\r\n1\r\nget c\r\n"),
            "SERVER_ERROR cancelled, may have run\r\n");
  cancels_ = false;
  EXPECT_EQ(ask("get a b c\r\n"), "VALUE a 0 1\r\n1\r\nVALUE c 0 1\r\n1\r\nEND\r\n");
}

}  // namespace
}  // namespace rubato::kv
