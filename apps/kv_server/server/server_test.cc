// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>

#include "kv_server/server/protected_mode.h"
#include "kv_server/testing/harness.h"
#include "rpc/frames.h"

namespace rubato::kv {
namespace {

using testing::bulk;
using testing::Client;
using testing::Harness;

TEST(KvServer, pipelined_requests_are_answered_in_order) {
  Harness h;
  EXPECT_EQ(h.client.send("*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\nGET a\r\nINCR a\r\nPI"),
            "+OK\r\n$1\r\n1\r\n:2\r\n");
  EXPECT_EQ(h.client.send("NG\r\n"), "+PONG\r\n");
}

TEST(KvServer, empty_requests_get_no_reply) {
  Harness h;
  EXPECT_EQ(h.client.send("\r\n*0\r\n*-1\r\nPING\r\n"), "+PONG\r\n");
}

TEST(KvServer, a_protocol_error_is_answered_and_ends_the_connection) {
  Harness h;
  EXPECT_EQ(h.client.send("PING\r\n*x\r\nPING\r\n"),
            "+PONG\r\n-ERR Protocol error: invalid multibulk length\r\n");
  EXPECT_TRUE(h.client.closed());
}

TEST(KvServer, unknown_commands_and_wrong_arity_read_as_in_redis) {
  Harness h;
  EXPECT_EQ(h.call({"nope", "a", "b"}),
            "-ERR unknown command 'nope', with args beginning with: 'a' 'b' \r\n");
  EXPECT_EQ(h.call({"LPUSH", "l", "x"}),
            "-ERR unknown command 'LPUSH', with args beginning with: 'l' 'x' \r\n");
  EXPECT_EQ(h.call({"GET"}), "-ERR wrong number of arguments for 'get' command\r\n");
  EXPECT_EQ(h.call({"config"}), "-ERR wrong number of arguments for 'config' command\r\n");
  EXPECT_EQ(h.call({"config", "nope"}),
            "-ERR unknown subcommand 'nope'. Try CONFIG HELP.\r\n");
  EXPECT_EQ(h.call({"config", "get"}),
            "-ERR wrong number of arguments for 'config|get' command\r\n");
}

TEST(KvServer, http_requests_close_the_connection_without_a_word) {
  Harness h;
  EXPECT_EQ(h.client.send("POST / HTTP/1.1\r\nSET a b\r\n"), "");
  EXPECT_TRUE(h.client.closed());
}

TEST(KvServer, without_password_nothing_but_auth_works) {
  KvOptions options;
  options.requirepass = "secret";
  Harness h(options);
  EXPECT_EQ(h.call({"GET", "a"}), "-NOAUTH Authentication required.\r\n");
  EXPECT_EQ(h.call({"PING"}), "-NOAUTH Authentication required.\r\n");
  EXPECT_EQ(h.call({"nope"}),
            "-ERR unknown command 'nope', with args beginning with: \r\n");
  EXPECT_EQ(h.call({"AUTH", "wrong"}),
            "-WRONGPASS invalid username-password pair or user is disabled.\r\n");
  EXPECT_EQ(h.call({"AUTH", "secret"}), "+OK\r\n");
  EXPECT_EQ(h.call({"GET", "a"}), "$-1\r\n");
  EXPECT_EQ(h.call({"RESET"}), "+RESET\r\n");
  EXPECT_EQ(h.call({"GET", "a"}), "-NOAUTH Authentication required.\r\n");
  EXPECT_EQ(h.call({"HELLO", "3", "AUTH", "default", "secret", "SETNAME", "me"}).substr(0, 2),
            "%7");
  EXPECT_EQ(h.call({"CLIENT", "GETNAME"}), bulk("me"));
}

TEST(KvServer, hello_switches_the_protocol_and_reset_switches_back) {
  Harness h;
  EXPECT_EQ(h.call({"HELLO", "4"}), "-NOPROTO unsupported protocol version\r\n");
  h.call({"HELLO", "3"});
  EXPECT_EQ(h.call({"GET", "none"}), "_\r\n");
  EXPECT_EQ(h.call({"CONFIG", "GET", "timeout"}), "%1\r\n$7\r\ntimeout\r\n$1\r\n0\r\n");
  EXPECT_EQ(h.call({"RESET"}), "+RESET\r\n");
  EXPECT_EQ(h.call({"GET", "none"}), "$-1\r\n");
}

TEST(KvServer, quit_answers_and_closes) {
  Harness h;
  EXPECT_EQ(h.client.send("QUIT\r\nPING\r\n"), "+OK\r\n");
  EXPECT_TRUE(h.client.closed());
}

TEST(KvServer, a_refused_request_says_overloaded) {
  Harness h;
  h.client.refuse_next();
  EXPECT_EQ(h.client.send("GET a\r\n").substr(0, 12), "-OVERLOADED ");
  EXPECT_EQ(h.client.send("PING\r\n"), "+PONG\r\n");
}

TEST(KvServer, refusals_are_counted_under_their_code) {
  Harness h;
  h.client.refuse_next();
  h.client.send("GET a\r\n");
  EXPECT_NE(h.call({"INFO", "errorstats"}).find("errorstat_OVERLOADED:count=1"), std::string::npos);
  EXPECT_NE(h.call({"INFO", "commandstats"}).find("rejected_calls=1"), std::string::npos);
  EXPECT_NE(h.call({"INFO", "overload"}).find("overload_state:calm"), std::string::npos);
}

TEST(KvServer, a_refused_request_is_as_silent_as_its_client_asked) {
  Harness h;
  EXPECT_EQ(h.client.send("CLIENT REPLY OFF\r\n"), "");
  h.client.refuse_next();
  EXPECT_EQ(h.client.send("GET a\r\n"), "");
  EXPECT_EQ(h.client.send("CLIENT REPLY ON\r\nCLIENT REPLY SKIP\r\n"), "+OK\r\n");
  h.client.refuse_next();
  EXPECT_EQ(h.client.send("GET a\r\nPING\r\n"), "+PONG\r\n");
}

TEST(KvServer, what_it_says_of_itself_is_what_the_host_gave_it) {
  Harness h;
  Host host;
  host.port = 7001;
  h.app.connect(host);
  EXPECT_EQ(h.call({"CONFIG", "GET", "port"}), "*2\r\n" + bulk("port") + bulk("7001"));
  EXPECT_NE(h.call({"INFO", "server"}).find("tcp_port:7001\r\n"), std::string::npos);
  const std::string limit = "normal " + std::to_string(kDefaultMaxReplyBytes) + " 0 0 ";
  EXPECT_NE(h.call({"CONFIG", "GET", "client-output-buffer-limit"}).find(limit),
            std::string::npos);
}

TEST(KvServer, percentiles_are_numbers_of_0_to_100) {
  Harness h;
  const auto set = [&h](const std::string& text) {
    return h.call({"CONFIG", "SET", "latency-tracking-info-percentiles", text});
  };
  EXPECT_EQ(set("0 50.0 99.9 99.9999999 100"), "+OK\r\n");
  EXPECT_NE(h.call({"CONFIG", "GET", "latency-tracking-info-percentiles"})
                .find("\r\n0 50 99.9 100 100\r\n"),
            std::string::npos);
  EXPECT_EQ(set(""), "+OK\r\n");
  EXPECT_TRUE(set("fifty").ends_with("Invalid latency-tracking-info-percentiles parameters\r\n"));
  EXPECT_TRUE(set("50 101").ends_with("parameters should sit between [0.0,100.0]\r\n"));
}

TEST(KvServer, no_password_is_set_beside_a_port_that_asks_for_none) {
  KvOptions options;
  options.ports.push_back(Speaks::kMemcached);
  Harness h(options);
  EXPECT_TRUE(h.call({"CONFIG", "SET", "requirepass", "secret"})
                  .ends_with("the memcached port has no passwords\r\n"));
  EXPECT_EQ(h.call({"GET", "a"}), "$-1\r\n");
  EXPECT_EQ(h.call({"CONFIG", "SET", "requirepass", ""}), "+OK\r\n");
}

// protocol.txt of memcached 1.6, flags h and l of mg.
TEST(KvServer, a_meta_get_tells_of_the_use_before_it) {
  KvOptions options;
  options.ports.push_back(Speaks::kMemcached);
  Harness h(options);
  Client client(h.app, 2, 1);
  const auto after = [&](int64_t ms, std::string_view request) {
    h.clock.advance(ms);
    return client.send(request);
  };
  EXPECT_EQ(client.send("ms k 1 T100\r\nx\r\n"), "HD\r\n");
  EXPECT_EQ(after(4000, "mg k u h l t\r\n"), "HD h0 l4 t96\r\n");  // no use
  EXPECT_TRUE(after(2000, "me k\r\n").starts_with("ME k exp=94 la=6 cas="));
  EXPECT_EQ(after(0, "mg k h l t v\r\n"), "VA 1 h0 l6 t94\r\nx\r\n");
  EXPECT_EQ(after(3000, "mg k h l\r\n"), "HD h1 l3\r\n");
  EXPECT_TRUE(after(1000, "me k\r\n").ends_with(" fetch=yes size=1\r\n"));
  EXPECT_EQ(after(1000, "mg k l T100\r\nmg k l R1\r\n"), "HD l2\r\nHD l0\r\n");
  // Another value was not read yet, nor one that is made; one that is to be fetched anew stays.
  EXPECT_EQ(client.send("ms k 1 T100\r\ny\r\nmg k h l\r\n"), "HD\r\nHD h0 l0\r\n");
  EXPECT_EQ(client.send("mg k h R200\r\nmg k h\r\n"), "HD h1 W\r\nHD h1 Z\r\n");
  EXPECT_EQ(client.send("mg none h l N30\r\nmg none h\r\n"), "HD h0 l0 W\r\nHD h0 Z\r\n");
  for (const char* use : {"get k\r\n", "gat 100 k\r\n", "touch k 100\r\n", "gets k\r\n"}) {
    client.send("set k 0 100 1\r\nz\r\n");
    h.clock.advance(5000);
    EXPECT_EQ(client.send("mg k h l u\r\n"), "HD h0 l5\r\n");
    client.send(use);
    EXPECT_EQ(client.send("mg k h l u\r\n"), "HD h1 l0\r\n") << use;
  }
  h.call({"SET", "k", "1"});
  EXPECT_EQ(client.send("mg k h u\r\n"), "HD h0\r\n");
  h.call({"MGET", "k", "none"});
  EXPECT_EQ(client.send("mg k h u\r\n"), "HD h1\r\n");
  h.call({"APPEND", "k", "2"});
  EXPECT_EQ(client.send("mg k h u\r\n"), "HD h0\r\n");
}

TEST(KvServer, every_byte_of_a_long_password_counts) {
  KvOptions options;
  options.requirepass = std::string(600, 'a');
  Harness h(options);
  EXPECT_TRUE(h.call({"AUTH", std::string(599, 'a') + 'b'}).starts_with("-WRONGPASS"));
  EXPECT_EQ(h.call({"AUTH", options.requirepass}), "+OK\r\n");
}

TEST(KvServer, frame_marks_type_and_control_plane) {
  Harness h;
  Peer peer;
  peer.flow = 9;
  const auto session = h.app.open(peer);
  const auto framed = [&](std::string_view bytes) {
    Request request;
    EXPECT_EQ(session->frame(bytes, request).state, FrameState::kComplete);
    return request;
  };
  EXPECT_EQ(KvApplication::type_name(framed("gEt a\r\n").type), "get");
  EXPECT_FALSE(framed("GET a\r\n").is_control());
  EXPECT_EQ(KvApplication::type_name(framed("config SET a b\r\n").type), "config|set");
  EXPECT_EQ(KvApplication::type_name(framed("nope\r\n").type), "unknown");
  for (const char* name : {"PING\r\n", "INFO\r\n", "CLIENT ID\r\n", "CONFIG GET x\r\n",
                           "HELLO\r\n", "AUTH x\r\n", "ECHO a\r\n", "COMMAND COUNT\r\n",
                           "QUIT\r\n", "RESET\r\n", "SELECT 0\r\n"}) {
    EXPECT_TRUE(framed(name).is_control()) << name;
  }
}

TEST(KvServer, every_command_is_found_by_its_name_in_any_case) {
  const CommandTable& table = command_table();
  for (uint32_t number = 1; number < table.size(); ++number) {
    if (table.is_subcommand(number)) continue;
    std::string name = table.full_name(number);
    EXPECT_EQ(table.find(name), number);
    for (char& c : name) c = static_cast<char>(std::toupper(c));
    EXPECT_EQ(table.find(name), number);
    EXPECT_EQ(table.find(name + "X"), kUnknownCommand);
  }
  EXPECT_EQ(table.find(""), kUnknownCommand);
  EXPECT_EQ(table.find(std::string(100, 'a')), kUnknownCommand);
}

TEST(KvServer, maxclients_cannot_be_more_than_the_system_allows) {
  Harness h;
  h.app.server().config().limit_clients(100);
  EXPECT_EQ(h.call({"CONFIG", "GET", "maxclients"}), "*2\r\n$10\r\nmaxclients\r\n$3\r\n100\r\n");
  EXPECT_EQ(h.call({"CONFIG", "SET", "maxclients", "101"}),
            "-ERR CONFIG SET failed (possibly related to argument 'maxclients') - The operating "
            "system is not able to handle the specified number of clients, try with 100\r\n");
  EXPECT_EQ(h.control.max_flows, 0U);
  EXPECT_EQ(h.call({"CONFIG", "SET", "maxclients", "99"}), "+OK\r\n");
  EXPECT_EQ(h.control.max_flows, 99U);
}

Peer peer_at(std::string address, uint32_t port = 0) { return {7, std::move(address), port}; }

TEST(KvServer, loopback_addresses_are_told_from_others) {
  for (const char* local : {"127.0.0.1:1", "127.8.9.10:65535", "[::1]:1", "[::ffff:127.0.0.1]:1",
                            "loopback", "loopback:7", ""}) {
    EXPECT_TRUE(is_loopback(local)) << local;
  }
  for (const char* other : {"10.0.0.1:1", "192.168.127.1:1", "[::]:1", "[::10]:1", "[fe80::1]:1",
                            "[::ffff:10.0.0.1]:1", "0.0.0.0:1", "1127.0.0.1:1", "?:0",
                            "loopbacks"}) {
    EXPECT_FALSE(is_loopback(other)) << other;
  }
}

TEST(KvServer, without_a_password_clients_of_other_machines_are_turned_away) {
  KvOptions options;
  options.ports = {Speaks::kResp, Speaks::kMemcached, Speaks::kRpc};
  Harness h(options);
  const std::string other = "10.0.0.1:1000";
  EXPECT_EQ(h.app.refusal_for(peer_at("127.0.0.1:1000")), "");
  EXPECT_EQ(h.app.refusal_for(peer_at(other)).substr(0, 24), "-DENIED protected mode: ");
  EXPECT_EQ(h.app.refusal_for(peer_at(other, 1)).substr(0, 29), "SERVER_ERROR protected mode: ");
  const std::string frame = h.app.refusal_for(peer_at(other, 2));
  const rpc::Decoded found = rpc::decode(frame, rpc::Side::kServer);
  EXPECT_EQ(found.state, rpc::Decoded::State::kComplete);
  EXPECT_EQ(found.message.amount, static_cast<uint32_t>(rpc::Fault::kAddress));
  EXPECT_EQ(found.message.body.substr(0, 16), "protected mode: ");
}

TEST(KvServer, a_password_or_a_setting_ends_protected_mode) {
  Harness h;
  const Peer other = peer_at("10.0.0.1:1000");
  EXPECT_EQ(h.call({"CONFIG", "GET", "protected-mode"}),
            "*2\r\n$14\r\nprotected-mode\r\n$3\r\nyes\r\n");
  EXPECT_EQ(h.call({"CONFIG", "SET", "protected-mode", "no"}), "+OK\r\n");
  EXPECT_EQ(h.app.refusal_for(other), "");
  EXPECT_EQ(h.call({"CONFIG", "SET", "protected-mode", "yes"}), "+OK\r\n");
  EXPECT_NE(h.app.refusal_for(other), "");
  EXPECT_EQ(h.call({"CONFIG", "SET", "requirepass", "secret"}), "+OK\r\n");
  EXPECT_EQ(h.app.refusal_for(other), "");
}

TEST(KvServer, options_of_the_scheduler_are_shown_and_set_where_the_host_can) {
  Harness h;
  EXPECT_EQ(h.call({"CONFIG", "GET", "target-delay"}),
            "*2\r\n" + bulk("target-delay") + bulk("3ms"));
  EXPECT_EQ(h.call({"CONFIG", "SET", "policy", "fcfs"}),
            "-ERR CONFIG SET failed (possibly related to argument 'policy') - policy: no such "
            "policy\r\n");
  EXPECT_TRUE(h.call({"CONFIG", "SET", "timeout", "7", "target-delay", "4ms", "policy", "fcfs"})
                  .starts_with("-ERR"));
  EXPECT_EQ(h.control.target_delay, "3ms");
  EXPECT_EQ(h.call({"CONFIG", "GET", "timeout"}), "*2\r\n" + bulk("timeout") + bulk("0"));
  EXPECT_TRUE(h.call({"CONFIG", "SET", "target-delay", "4ms", "timeout", "soon"})
                  .starts_with("-ERR"));
  EXPECT_EQ(h.control.target_delay, "3ms");
  EXPECT_EQ(h.call({"CONFIG", "SET", "target-delay", "4ms", "policy", "synergy"}), "+OK\r\n");
  EXPECT_EQ(h.control.target_delay, "4ms");
  EXPECT_EQ(h.call({"CONFIG", "GET", "target-delay"}),
            "*2\r\n" + bulk("target-delay") + bulk("4ms"));
}

TEST(KvServer, config_set_is_all_or_nothing) {
  Harness h;
  EXPECT_EQ(h.call({"CONFIG", "SET", "maxclients", "7", "timeout", "3"}), "+OK\r\n");
  EXPECT_EQ(h.control.max_flows, 7U);
  EXPECT_EQ(h.control.idle_timeout, Nanos::seconds(3));
  EXPECT_EQ(h.call({"CONFIG", "SET", "timeout", "9", "nope", "1"}),
            "-ERR Unknown option or number of arguments for CONFIG SET - 'nope'\r\n");
  EXPECT_EQ(h.call({"CONFIG", "GET", "timeout"}), "*2\r\n$7\r\ntimeout\r\n$1\r\n3\r\n");
  EXPECT_EQ(h.call({"CONFIG", "SET", "timeout", "x"}),
            "-ERR CONFIG SET failed (possibly related to argument 'timeout') - argument couldn't "
            "be parsed into an integer\r\n");
  EXPECT_EQ(h.call({"CONFIG", "SET", "maxmemory", "2mb"}), "+OK\r\n");
  EXPECT_EQ(h.engine->stats().maxmemory_bytes, 2U * 1024 * 1024);
}

TEST(KvServer, slow_requests_are_logged_with_their_wait_and_culprit) {
  Harness h;
  EXPECT_EQ(h.control.slow_threshold, Nanos::millis(10));
  Completion times;
  times.wait = Nanos::millis(30);
  times.service = Nanos::micros(5);
  times.preemptions = 2;
  times.blocker_type = command_table().find("keys");
  times.blocker_service = Nanos::millis(29);
  h.client.set_times(times);
  h.call({"GET", "a"});
  h.call({"AUTH", "user", "password"});
  const std::string log = h.call({"SLOWLOG", "GET", "FULL"});
  EXPECT_NE(log.find("$10\r\n(redacted)"), std::string::npos);
  EXPECT_EQ(log.find("password"), std::string::npos);
  EXPECT_NE(log.find(":5\r\n*2\r\n$3\r\nGET\r\n$1\r\na\r\n$13\r\n10.0.0.1:1001\r\n$0\r\n\r\n"
                     ":30000\r\n:5\r\n:2\r\n$4\r\nkeys\r\n:29000\r\n"),
            std::string::npos);
  EXPECT_EQ(h.call({"SLOWLOG", "GET", "1"}).substr(0, 8), "*1\r\n*6\r\n");
  EXPECT_EQ(h.call({"SLOWLOG", "GET", "1", "FULL"}).substr(0, 9), "*1\r\n*11\r\n");
  EXPECT_EQ(h.call({"SLOWLOG", "RESET"}), "+OK\r\n");
}

TEST(KvServer, latency_histogram_counts_in_powers_of_two) {
  Harness h;
  const uint32_t get = command_table().find("get");
  h.latency.times[get].record_many(Nanos(500), 3);
  h.latency.times[get].record_many(Nanos::micros(3), 2);
  EXPECT_EQ(h.call({"LATENCY", "HISTOGRAM", "get", "set", "nope"}),
            "*2\r\n$3\r\nget\r\n*4\r\n$5\r\ncalls\r\n:5\r\n$14\r\nhistogram_usec\r\n*4\r\n:1\r\n:"
            "3\r\n:4\r\n:5\r\n");
}

// The host counts three requests here; Redis counts none of them as a call of GET but the one that
// EXEC ran.
TEST(KvServer, calls_are_those_that_ran) {
  Harness h;
  const uint32_t get = command_table().find("get");
  h.call({"MULTI"});
  h.call({"GET", "a"});
  h.call({"EXEC"});
  h.call({"GET"});
  h.latency.times[get].record_many(Nanos(500), 2);
  EXPECT_EQ(h.app.server().calls().calls(get, 2), 1u);
  EXPECT_EQ(h.app.server().calls().refused(get), 1u);
  const std::string lines = h.call({"INFO", "commandstats"});
  EXPECT_NE(lines.find("cmdstat_get:calls=1,"), std::string::npos) << lines;
}

TEST(KvServer, an_error_inside_exec_is_one_of_its_command) {
  Harness h;
  h.call({"SET", "a", "words"});
  h.call({"MULTI"});
  h.call({"INCR", "a"});
  h.call({"EXEC"});
  EXPECT_EQ(h.app.server().calls().failed(command_table().find("incr")), 1u);
  EXPECT_EQ(h.app.server().calls().failed(command_table().find("exec")), 0u);
}

TEST(KvServer, info_has_the_sections_asked_for) {
  Harness h;
  h.call({"SET", "a", "1", "EX", "100"});
  EXPECT_NE(h.call({"INFO", "keyspace"}).find("db0:keys=1,expires=1"), std::string::npos);
  EXPECT_NE(h.call({"INFO", "scheduler"}).find("policy:synergy"), std::string::npos);
  h.call({"GET"});
  EXPECT_NE(h.call({"INFO", "errorstats"}).find("errorstat_ERR:count=1"), std::string::npos);
  EXPECT_NE(h.call({"INFO", "commandstats"}).find("cmdstat_get:calls=0,usec=10,usec_per_call="
                                                  "0.00,rejected_calls=1,failed_calls=0"),
            std::string::npos);
}

TEST(KvServer, clients_are_listed_and_killed) {
  Harness h;
  Client other(h.app, 2);
  FlowInfo me;
  me.flow = 1;
  me.peer = "10.0.0.1:1001";
  FlowInfo them;
  them.flow = 2;
  them.peer = "10.0.0.1:1002";
  h.datapath.flows = {me, them};
  const std::string list = h.call({"CLIENT", "LIST"});
  EXPECT_NE(list.find("id=1 addr=10.0.0.1:1001"), std::string::npos);
  EXPECT_NE(list.find("id=2 addr=10.0.0.1:1002"), std::string::npos);
  EXPECT_EQ(h.call({"CLIENT", "KILL", "ID", "2"}), ":1\r\n");
  EXPECT_EQ(h.datapath.closed, std::vector<uint64_t>{2});
  EXPECT_EQ(h.call({"CLIENT", "KILL", "1.1.1.1:1"}), "-ERR No such client\r\n");
  EXPECT_EQ(h.call({"CLIENT", "KILL", "10.0.0.1:1001"}), "+OK\r\n");
  EXPECT_TRUE(h.client.closed());
}

TEST(KvServer, replies_can_be_muted_and_come_back) {
  Harness h;
  EXPECT_EQ(h.client.send("CLIENT REPLY SKIP\r\nPING\r\nPING\r\n"), "+PONG\r\n");
  EXPECT_EQ(h.client.send("CLIENT REPLY OFF\r\nPING\r\nnope\r\nSET a 1\r\n"), "");
  EXPECT_EQ(h.client.send("CLIENT REPLY ON\r\nGET a\r\n"), "+OK\r\n$1\r\n1\r\n");
}

TEST(KvServer, shutdown_asks_the_host) {
  Harness h;
  EXPECT_EQ(h.call({"SHUTDOWN", "NOSAVE"}), "");
  EXPECT_TRUE(h.control.down);
}

}  // namespace
}  // namespace rubato::kv
