// SPDX-License-Identifier: Apache-2.0
#include "kv_server/memcached/session.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "kv_server/testing/harness.h"

namespace rubato::kv {
namespace {

using testing::Client;
using testing::Harness;
using Counts = std::map<std::string, int>;

KvOptions with_memcached() {
  KvOptions options;
  options.ports = {Speaks::kResp, Speaks::kMemcached};
  return options;
}

struct MemcachedSessionTest : ::testing::Test {
  std::string send(std::string_view bytes) { return client.send(bytes); }

  // The cas token of an item.
  std::string token(const std::string& key) {
    const std::string reply = send("mg " + key + " c\r\n");
    return reply.substr(4, reply.size() - 6);  // between "HD c" and the end of the line
  }
  std::map<std::string, std::string> stats(const std::string& operand = "") {
    std::istringstream text(send("stats" + operand + "\r\n"));
    std::map<std::string, std::string> shown;
    for (std::string mark, name, value; text >> mark && mark == "STAT";) {
      text >> name >> value;
      EXPECT_TRUE(shown.emplace(name, value).second) << name;
    }
    return shown;
  }
  // The counters by verb that are not zero.
  Counts counts() {
    Counts moved;
    const auto shown = stats();
    const auto add = [&](std::string_view name) {
      const int value = std::stoi(shown.at(std::string(name)));
      if (value != 0) moved.emplace(name, value);
    };
    for (const std::string_view name : kMemcachedCounters) add(name);
    add("cmd_get");
    add("cmd_touch");
    return moved;
  }
  Counts counts_of(std::string_view requests) {
    EXPECT_EQ(send("stats reset\r\n"), "RESET\r\n");
    EXPECT_EQ(counts(), Counts());
    send(requests);
    return counts();
  }

  Harness harness{with_memcached()};
  Client client{harness.app, 2, 1};
};

std::string too_large(const std::string& line) {
  return line + "\r\n" + std::string(kMemcachedItemBytes + 1, 'x') + "\r\n";
}

TEST_F(MemcachedSessionTest, the_old_item_of_a_key_in_base64_is_not_taken_for_one_too_large) {
  const std::string size = std::to_string(kMemcachedItemBytes + 1);
  EXPECT_EQ(send("ms a2V5 3 b\r\nold\r\nget key\r\n"), "HD\r\nVALUE key 0 3\r\nold\r\nEND\r\n");
  EXPECT_EQ(send("set a2V5 0 0 3\r\nbed\r\n"), "STORED\r\n");
  EXPECT_EQ(send(too_large("ms a2V5 " + size + " b")),
            "SERVER_ERROR object too large for cache\r\n");
  EXPECT_EQ(send("get key a2V5\r\n"), "VALUE a2V5 0 3\r\nbed\r\nEND\r\n");
}

// protocol.txt of memcached 1.6, "General-purpose statistics".
TEST_F(MemcachedSessionTest, reads_hit_or_miss) {
  send("set k 0 0 1\r\nv\r\n");
  EXPECT_EQ(counts_of("get k none k\r\ngets none\r\n"),
            (Counts{{"cmd_get", 4}, {"get_hits", 2}, {"get_misses", 2}}));
  EXPECT_EQ(counts_of("gat 100 k none\r\ngats 0 k\r\ntouch k 0\r\ntouch none 0\r\n"),
            (Counts{{"cmd_touch", 5}, {"touch_hits", 3}, {"touch_misses", 2}}));
  EXPECT_EQ(counts_of("get\r\nget \1\r\ntouch k x\r\ngat x k\r\n"), Counts());
}

TEST_F(MemcachedSessionTest, what_stores_counts_whether_or_not_it_did) {
  EXPECT_EQ(counts_of("set k 0 0 1\r\nv\r\nset k 0 0 1 noreply\r\nw\r\nappend k 0 0 1\r\nx\r\n"),
            (Counts{{"cmd_set", 3}, {"total_items", 3}}));
  EXPECT_EQ(counts_of("add k 0 0 1\r\nv\r\nreplace none 0 0 1\r\nv\r\nprepend none 0 0 1\r\nv\r\n"),
            (Counts{{"cmd_set", 3}}));
  EXPECT_EQ(counts_of(too_large("append k 0 0 " + std::to_string(kMemcachedItemBytes + 1))),
            (Counts{{"store_too_large", 1}}));
  send("set k 0 0 2\r\nvw\r\n");
  const std::string most = std::string(kMemcachedItemBytes, 'x');
  EXPECT_EQ(counts_of("prepend k 0 0 " + std::to_string(most.size()) + "\r\n" + most + "\r\n"),
            (Counts{{"store_too_large", 1}}));
  harness.call({"CONFIG", "SET", "maxmemory", "1"});
  EXPECT_EQ(counts_of("set other 0 0 1\r\nv\r\n"), (Counts{{"store_no_memory", 1}}));
}

TEST_F(MemcachedSessionTest, what_compares_and_sets_is_right_wrong_or_missing) {
  send("set k 0 0 1\r\nv\r\n");
  EXPECT_EQ(counts_of("cas none 0 0 1 5\r\nv\r\n"), (Counts{{"cmd_set", 1}, {"cas_misses", 1}}));
  EXPECT_EQ(counts_of("cas k 0 0 1 5\r\nv\r\n"), (Counts{{"cmd_set", 1}, {"cas_badval", 1}}));
  EXPECT_EQ(counts_of("cas k 0 0 1 " + token("k") + "\r\nw\r\n"),
            (Counts{{"cmd_set", 1}, {"cas_hits", 1}, {"total_items", 1}}));
}

TEST_F(MemcachedSessionTest, what_erases_counts_and_flushes) {
  send("set k 0 0 1\r\nv\r\nset n 0 0 1\r\n5\r\n");
  EXPECT_EQ(counts_of("delete k\r\ndelete k\r\ndelete k noreply\r\n"),
            (Counts{{"delete_hits", 1}, {"delete_misses", 2}}));
  EXPECT_EQ(counts_of("incr n 1\r\nincr n 1\r\nincr k 1\r\n"),
            (Counts{{"incr_hits", 2}, {"incr_misses", 1}}));
  EXPECT_EQ(counts_of("decr n 1\r\ndecr k 1\r\ndecr k 1\r\n"),
            (Counts{{"decr_hits", 1}, {"decr_misses", 2}}));
  send("set k 0 0 1\r\nv\r\n");
  EXPECT_EQ(counts_of("incr k 1\r\ndecr k 1\r\nma k\r\n"), Counts());  // is no number
  EXPECT_EQ(counts_of("flush_all\r\nflush_all 100\r\n"), (Counts{{"cmd_flush", 2}}));
}

TEST_F(MemcachedSessionTest, meta_commands_count_as_those_that_do_the_same) {
  EXPECT_EQ(counts_of("ms k 1\r\n5\r\nms n 1 MR\r\n5\r\nms k 1 ME\r\n5\r\n"),
            (Counts{{"cmd_set", 3}, {"total_items", 1}}));
  EXPECT_EQ(counts_of("mg k v\r\nmg none q\r\nmg k u\r\n"),
            (Counts{{"cmd_get", 3}, {"get_hits", 2}, {"get_misses", 1}}));
  EXPECT_EQ(counts_of("mg k T100\r\nmg none T100\r\n"),
            (Counts{{"cmd_touch", 1}, {"touch_hits", 1}, {"cmd_get", 1}, {"get_misses", 1}}));
  EXPECT_EQ(counts_of("mg made N100\r\n"),
            (Counts{{"cmd_get", 1}, {"get_hits", 1}, {"total_items", 1}}));
  EXPECT_EQ(counts_of("ma k\r\nma k MD q\r\nma none\r\nma none M-\r\nma k C1\r\n"),
            (Counts{{"incr_hits", 1}, {"decr_hits", 1}, {"incr_misses", 1}, {"decr_misses", 1}}));
  EXPECT_EQ(counts_of("ma new N0 J5\r\n"), (Counts{{"total_items", 1}}));
  EXPECT_EQ(counts_of("md k C1\r\nmd k I\r\nmd none q\r\nmd k\r\n"),
            (Counts{{"delete_hits", 1}, {"delete_misses", 2}}));
  EXPECT_EQ(counts_of("me made\r\nme none\r\nmn\r\n"), (Counts{{"cmd_meta", 2}}));
}

TEST_F(MemcachedSessionTest, a_meta_set_with_a_token_compares_and_sets) {
  send("set k 0 0 1\r\nv\r\n");
  EXPECT_EQ(counts_of("ms none 1 C5\r\nv\r\n"), (Counts{{"cmd_set", 1}, {"cas_misses", 1}}));
  EXPECT_EQ(counts_of("ms k 1 C5 MR\r\nv\r\n"), (Counts{{"cmd_set", 1}, {"cas_badval", 1}}));
  EXPECT_EQ(counts_of("ms k 1 C5 MA\r\nv\r\n"), (Counts{{"cmd_set", 1}}));  // appends
  const Counts good{{"cmd_set", 1}, {"cas_hits", 1}, {"total_items", 1}};
  EXPECT_EQ(counts_of("ms k 1 C" + token("k") + "\r\nw\r\n"), good);
  EXPECT_EQ(counts_of("ms k 1 C1 I\r\nw\r\n"), good);  // is stale
}

TEST_F(MemcachedSessionTest, what_is_asked_for_after_its_time_is_shown) {
  send("set a 0 1 1\r\nv\r\nset b 0 1 1\r\nv\r\nset c 0 1 1\r\nv\r\nset d 0 0 1\r\nv\r\n");
  harness.clock.advance(1000);
  EXPECT_EQ(send("get a a d\r\nmg b\r\n"), "VALUE d 0 1\r\nv\r\nEND\r\nEN\r\n");
  EXPECT_EQ(stats().at("get_expired"), "2");
  harness.app.expire_some(100);
  EXPECT_EQ(stats().at("get_expired"), "2");
  send("stats reset\r\n");
  EXPECT_EQ(stats().at("get_expired"), "0");
}

// Other protocols have counters of their own.
TEST_F(MemcachedSessionTest, requests_of_other_protocols_do_not_count_by_verb) {
  send("stats reset\r\n");
  harness.call({"SET", "k", "v"});
  harness.call({"GET", "k"});
  EXPECT_EQ(counts(), Counts());
  send("get k\r\n");
  harness.call({"CONFIG", "RESETSTAT"});
  EXPECT_EQ(counts(), Counts());
}

TEST_F(MemcachedSessionTest, what_the_server_is_is_shown_too) {
  harness.call({"CONFIG", "SET", "maxclients", "1234"});
  const auto shown = stats();
  EXPECT_EQ(shown.at("max_connections"), "1234");
  EXPECT_EQ(shown.at("accepting_conns"), "1");
  EXPECT_EQ(shown.at("pointer_size"), std::to_string(8 * sizeof(void*)));
  for (const char* const usage : {"rusage_user", "rusage_system"}) {
    EXPECT_TRUE(std::regex_match(shown.at(usage), std::regex("\\d+\\.\\d{6}"))) << usage;
  }
  EXPECT_EQ(stats(" settings").at("maxconns"), "1234");
}

// protocol.txt of memcached 1.6 does not describe it; t/stats-detail.t does.
TEST_F(MemcachedSessionTest, detail_counts_by_what_is_in_front_of_the_first_colon) {
  const auto dump = [&] { return send("stats detail dump\r\n"); };
  send("set foo:1 0 0 1\r\nv\r\n");
  EXPECT_EQ(dump(), "END\r\n");
  EXPECT_EQ(stats(" settings").at("detail_enabled"), "no");
  EXPECT_EQ(send("stats detail on\r\n"), "OK\r\n");
  EXPECT_EQ(stats(" settings").at("detail_enabled"), "yes");
  send("set foo:1 0 0 1\r\nv\r\ncas foo:2 0 0 1 5\r\nv\r\nappend foo:1:x 0 0 1\r\nv\r\n");
  EXPECT_EQ(dump(), "PREFIX foo get 0 hit 0 set 3 del 0\r\nEND\r\n");
  send("get foo:1 foo:2 foo\r\ngat 0 foo:1\r\ndelete foo:2\r\n");
  EXPECT_EQ(dump(), "PREFIX foo get 3 hit 2 set 3 del 1\r\nEND\r\n");
  send("ms bar:1 1\r\nv\r\nmg bar:1\r\nmg bar:2\r\nmd bar:1\r\nincr bar:1 1\r\n:me\r\nmg :\r\n");
  EXPECT_EQ(dump(),
            "PREFIX  get 1 hit 0 set 0 del 0\r\nPREFIX bar get 2 hit 1 set 1 del 1\r\n"
            "PREFIX foo get 3 hit 2 set 3 del 1\r\nEND\r\n");
  EXPECT_EQ(send("stats reset\r\n"), "RESET\r\n");
  EXPECT_EQ(dump(), "END\r\n");
  send("get foo:1\r\n");
  EXPECT_EQ(send("stats detail off\r\nget foo:1\r\n"), "OK\r\nVALUE foo:1 0 1\r\nv\r\nEND\r\n");
  EXPECT_EQ(dump(), "PREFIX foo get 1 hit 1 set 0 del 0\r\nEND\r\n");
  for (const char* const wrong : {"stats detail\r\n", "stats detail ON\r\n"}) {
    EXPECT_EQ(send(wrong), "CLIENT_ERROR usage: stats detail on|off|dump\r\n");
  }
}

// A key in base64 may hold anything; its text has no colon.
TEST_F(MemcachedSessionTest, detail_shows_nothing_that_a_key_in_base64_stands_for) {
  send("stats detail on\r\nmg DQpFTkQNCjo= b\r\n");  // of "\r\nEND\r\n:"
  EXPECT_EQ(send("stats detail dump\r\n"), "END\r\n");
}

TEST_F(MemcachedSessionTest, detail_counts_together_what_comes_behind_its_last_prefix) {
  send("stats detail on\r\n");
  const size_t prefixes = PrefixCounters::kMaxPrefixes;
  for (size_t i = 0; i < prefixes + 3; ++i) send("get p" + std::to_string(i) + ":k\r\n");
  send("set p0:k 0 0 1\r\nv\r\nget p" + std::to_string(prefixes) + ":k\r\nget p0:k\r\n");
  const std::string dump = send("stats detail dump\r\n");
  EXPECT_EQ(std::count(dump.begin(), dump.end(), '\n'), static_cast<int64_t>(prefixes + 2));
  EXPECT_NE(dump.find("PREFIX p0 get 2 hit 1 set 1 del 0\r\n"), std::string::npos);
  EXPECT_TRUE(dump.ends_with("PREFIX :others get 4 hit 0 set 0 del 0\r\nEND\r\n"));
}

// No count is lost, whichever worker writes it.
TEST(MemcachedCounters, are_the_sum_over_all_workers) {
  MemcachedCounters counters;
  std::vector<std::thread> threads;
  for (uint32_t worker = 0; worker < 4; ++worker) {
    threads.emplace_back([&counters, worker] {
      set_this_worker(worker / 2);  // two write to the same lines
      for (int i = 0; i < 10'000; ++i) counters.add("cmd_set");
      counters.add("get_hits");
      set_no_worker();
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto value = [&](MemcachedCounter counter) { return counters.values()[counter.index()]; };
  EXPECT_EQ(value("cmd_set"), 40'000u);
  EXPECT_EQ(value("get_hits"), 4u);
  EXPECT_EQ(value("get_misses"), 0u);
  counters.reset();
  EXPECT_EQ(counters.values(), MemcachedCounters::Values());
}

}  // namespace
}  // namespace rubato::kv
