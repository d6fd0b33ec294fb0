// SPDX-License-Identifier: Apache-2.0
#include "load/request_source.h"

#include <gtest/gtest.h>

#include "load/reply_parser.h"

namespace rubato::load {
namespace {

const KvShape kShape{.keys = 1, .value_size_bytes = 3, .scan_limit = 20};

std::string one_request(std::string_view mix, Protocol protocol = Protocol::kResp) {
  auto source = make_kv_source(mix, kShape, "", protocol);
  EXPECT_TRUE(source.ok()) << source.error();
  Prng prng(1);
  std::string bytes;
  (*source)->draw(prng, bytes);
  return bytes;
}

TEST(KvSource, requests_are_arrays_of_bulk_strings) {
  EXPECT_EQ(one_request("get:1"), "*2\r\n$3\r\nGET\r\n$16\r\nkey:000000000000\r\n");
  EXPECT_EQ(one_request("set:1"), "*3\r\n$3\r\nSET\r\n$16\r\nkey:000000000000\r\n$3\r\nvvv\r\n");
  EXPECT_EQ(one_request("range:1"),
            "*5\r\n$5\r\nRANGE\r\n$16\r\nkey:000000000000\r\n$16\r\nkey:999999999999\r\n"
            "$5\r\nLIMIT\r\n$2\r\n20\r\n");
  EXPECT_EQ(one_request("lrange/7:1"),
            "*4\r\n$6\r\nLRANGE\r\n$6\r\nlist:0\r\n$1\r\n0\r\n$1\r\n6\r\n");
  EXPECT_EQ(one_request("debugsleep/2500:1"),
            "*3\r\n$5\r\nDEBUG\r\n$5\r\nSLEEP\r\n$8\r\n0.002500\r\n");
}

TEST(KvSource, every_verb_makes_one_well_formed_command) {
  for (const auto& [name, summary] : kv_verbs(Protocol::kResp)) {
    const std::string bytes = one_request(std::string(name) + ":1");
    ReplyParser parser;
    size_t used = 0;
    EXPECT_EQ(parser.feed(bytes.data(), bytes.size(), used), ReplyParser::Status::kReply) << name;
    EXPECT_EQ(used, bytes.size()) << name;
    EXPECT_FALSE(summary.empty());
  }
}

TEST(KvSource, memcached_has_its_own_commands) {
  const auto bytes = [](std::string_view mix) { return one_request(mix, Protocol::kMemcached); };
  EXPECT_EQ(bytes("get:1"), "get key:000000000000\r\n");
  EXPECT_EQ(bytes("set:1"), "set key:000000000000 0 0 3\r\nvvv\r\n");
  EXPECT_EQ(bytes("incr:1"), "incr counter:0 1\r\n");
  EXPECT_EQ(bytes("del:1"), "delete key:000000000000\r\n");
  EXPECT_EQ(bytes("mget/2:1"), "get key:000000000000 key:000000000000\r\n");
  EXPECT_EQ(bytes("ping:1"), "version\r\n");
}

TEST(KvSource, a_verb_that_memcached_lacks_is_told) {
  size_t lacking = 0;
  for (const auto& [name, summary] : kv_verbs(Protocol::kResp)) {
    const std::string mix = std::string(name) + ":1";
    auto source = make_kv_source(mix, kShape, "", Protocol::kMemcached);
    if (source.ok()) continue;
    ++lacking;
    EXPECT_NE(source.error().find("memcached"), std::string::npos) << source.error();
  }
  EXPECT_EQ(lacking + kv_verbs(Protocol::kMemcached).size(), kv_verbs(Protocol::kResp).size());
  EXPECT_FALSE(make_kv_source("lrange:1", kShape, "", Protocol::kMemcached).ok());
}

TEST(KvSource, shares_follow_the_weights) {
  auto source = make_kv_source("get:99, range:1", kShape, "get=3,range=1ms");
  ASSERT_TRUE(source.ok()) << source.error();
  ASSERT_EQ((*source)->types().size(), 2u);
  EXPECT_NEAR((*source)->types()[1].share, 0.01, 1e-12);
  EXPECT_EQ((*source)->types()[0].service_mean, Nanos::micros(3));
  EXPECT_EQ((*source)->types()[1].service_mean, Nanos::millis(1));
  Prng prng(5);
  int ranges = 0;
  for (int i = 0; i < 10000; ++i) {
    std::string bytes;
    ranges += (*source)->draw(prng, bytes).type == 1;
  }
  EXPECT_NEAR(ranges, 100, 40);
}

TEST(KvSource, a_seed_fixes_the_requests) {
  const auto all = [](uint64_t seed) {
    auto source = make_kv_source("get:1,mget:1,range/3:1", KvShape{}, "");
    Prng prng(seed);
    std::string bytes;
    for (int i = 0; i < 50; ++i) (*source)->draw(prng, bytes);
    return bytes;
  };
  EXPECT_EQ(all(1), all(1));
  EXPECT_NE(all(1), all(2));
}

TEST(KvSource, ranges_start_far_enough_from_the_last_key) {
  auto source =
      make_kv_source("range/90:1", {.keys = 100, .value_size_bytes = 1, .scan_limit = 1}, "");
  Prng prng(3);
  for (int i = 0; i < 100; ++i) {
    std::string bytes;
    (*source)->draw(prng, bytes);
    EXPECT_NE(bytes.find("key:00000000000"), std::string::npos) << bytes;
  }
}

TEST(KvSource, errors_are_one_line_that_names_the_part) {
  for (const char* bad : {"", "get", "get:0", "get:-1", "get:x", "1:1", "get/0:1", "get/-1:1",
                          "get:1,", "get:1,get:2", "get/1.2.3:1", ":1"}) {
    auto source = make_kv_source(bad, kShape, "");
    ASSERT_FALSE(source.ok()) << bad;
    EXPECT_EQ(source.error().find('\n'), std::string::npos);
    EXPECT_TRUE(source.error().starts_with("mix: '")) << source.error();
  }
  for (const char* bad : {"get", "get=", "set=3", "get=0", "get=x"}) {
    auto source = make_kv_source("get:1", kShape, bad);
    ASSERT_FALSE(source.ok()) << bad;
    EXPECT_TRUE(source.error().starts_with("service-us: '")) << source.error();
  }
}

TEST(KvSource, other_names_and_more_arguments_are_commands) {
  EXPECT_EQ(one_request("dbsize:5"), "*1\r\n$6\r\ndbsize\r\n");
  EXPECT_EQ(one_request("hgetall:5"), "*2\r\n$7\r\nHGETALL\r\n$6\r\nhash:0\r\n");
  EXPECT_EQ(one_request("strlen/{key}:1"),
            "*2\r\n$6\r\nstrlen\r\n$16\r\nkey:000000000000\r\n");
  EXPECT_EQ(one_request("lrange/my:list/0/7:1"),
            "*4\r\n$6\r\nlrange\r\n$7\r\nmy:list\r\n$1\r\n0\r\n$1\r\n7\r\n");
  EXPECT_EQ(one_request("get/{key}:1"), one_request("get:1").replace(8, 3, "get"));
  EXPECT_EQ(one_request("exists/a:1"), "*2\r\n$6\r\nexists\r\n$1\r\na\r\n");
  EXPECT_EQ(one_request("GET/7:1"), "*2\r\n$3\r\nGET\r\n$1\r\n7\r\n");
  EXPECT_EQ(one_request("set/k/{value}:1"),
            "*3\r\n$3\r\nset\r\n$1\r\nk\r\n$3\r\nvvv\r\n");
  auto source = make_kv_source("get:1,getrange/{key}/0/9:3", kShape, "getrange/{key}/0/9=5");
  ASSERT_TRUE(source.ok()) << source.error();
  EXPECT_EQ((*source)->types()[1].name, "getrange/{key}/0/9");
  EXPECT_NEAR((*source)->types()[1].share, 0.75, 1e-12);
  EXPECT_EQ((*source)->types()[1].service_mean, Nanos::micros(5));
}

TEST(KvSource, malformed_commands_and_those_of_other_protocols_are_told) {
  for (const char* bad : {"frob/:1", "frob/{k}:1", "frob/%4:1", "subscribe/x:1", "frob/x",
                          "get/:1", "get/7/:1"}) {
    auto source = make_kv_source(bad, kShape, "");
    ASSERT_FALSE(source.ok()) << bad;
    EXPECT_TRUE(source.error().starts_with("mix: '")) << source.error();
  }
  for (Protocol protocol : {Protocol::kMemcached, Protocol::kRpcKv}) {
    for (const char* mix : {"touch/{key}/5:1", "get/a/b:1", "get/a:1", "frob:1"}) {
      auto source = make_kv_source(mix, kShape, "", protocol);
      ASSERT_FALSE(source.ok()) << mix;
      EXPECT_NE(source.error().find("resp://"), std::string::npos) << source.error();
    }
  }
}

TEST(SpinSource, asks_for_the_service_time_it_drew) {
  auto source = make_spin_source(parse_mix("short:1us:1").value());
  Prng prng(1);
  std::string bytes;
  const RequestSource::Draw draw = source->draw(prng, bytes);
  EXPECT_EQ(bytes, "*2\r\n$4\r\nSPIN\r\n$4\r\n1000\r\n");
  EXPECT_EQ(draw.service, Nanos(1000));
  EXPECT_EQ(source->types()[0].service_mean, Nanos(1000));
}

TEST(SpinSource, says_the_type_where_short_and_long_do_not_tell_it) {
  auto source = make_spin_source(parse_mix("a:1us:1,b:2us:1,c:3us:1").value());
  Prng prng(1);
  std::string bytes;
  source->make(2, Nanos(3000), prng, bytes);
  EXPECT_EQ(bytes, "*3\r\n$4\r\nSPIN\r\n$4\r\n3000\r\n$1\r\n5\r\n");
}

}  // namespace
}  // namespace rubato::load
