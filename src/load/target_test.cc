// SPDX-License-Identifier: Apache-2.0
#include "load/target.h"

#include <gtest/gtest.h>

namespace rubato::load {
namespace {

TEST(Target, is_a_protocol_a_host_and_a_port) {
  const Target resp = parse_target("resp://localhost:6379").value();
  EXPECT_EQ(resp.protocol, Protocol::kResp);
  EXPECT_EQ(resp.host, "localhost");
  EXPECT_EQ(resp.port, 6379);
  EXPECT_EQ(parse_target("spin://10.0.0.1:1").value().protocol, Protocol::kSpin);
  EXPECT_EQ(parse_target("rpc://10.0.0.1:1").value().protocol, Protocol::kRpc);
  EXPECT_EQ(parse_target("spin+udp://10.0.0.1:1").value().protocol, Protocol::kSpinUdp);
  EXPECT_EQ(parse_target("rpc+kv+udp://10.0.0.1:1").value().protocol, Protocol::kRpcKvUdp);
  EXPECT_EQ(parse_target("rpc+udp://10.0.0.1:1").value().protocol, Protocol::kRpcUdp);
  EXPECT_EQ(parse_target("rpc+kv://10.0.0.1:1").value().protocol, Protocol::kRpcKv);
  EXPECT_EQ(parse_target("resp://[::1]:65535").value().host, "::1");
}

TEST(Target, the_port_of_memcached_may_be_left_out) {
  for (const char* text : {"memcached://cache", "memcached://cache:11211"}) {
    const Target target = parse_target(text).value();
    EXPECT_EQ(target.protocol, Protocol::kMemcached);
    EXPECT_EQ(target.host, "cache");
    EXPECT_EQ(target.port, 11211);
  }
  EXPECT_EQ(parse_target("memcached://cache:7").value().port, 7);
  EXPECT_EQ(parse_target("memcached+udp://cache").value().port, 11211);
  EXPECT_EQ(parse_target("memcached+udp://cache").value().protocol, Protocol::kMemcachedUdp);
  EXPECT_EQ(parse_target("memcached://[::1]").value().host, "::1");
  EXPECT_EQ(parse_target("memcached://[::1]:7").value().port, 7);
}

TEST(Target, the_port_of_http_may_be_left_out) {
  EXPECT_EQ(parse_target("http://web").value().port, 80);
  EXPECT_EQ(parse_target("http://web:8080").value().port, 8080);
  EXPECT_EQ(parse_target("http://web").value().protocol, Protocol::kHttp);
}

TEST(Target, anything_else_is_refused_in_one_line) {
  for (const char* bad : {"", "localhost:1", "resp://a", "resp://:1", "resp://a:0",
                          "resp://a:65536", "resp://a:1x", "resp://::1:1", "resp://a:",
                          "resp://[::1]", "memcached://", "memcached://:1",
                          "memcached://a:", "memcached://a:0",
                          "memcached://[]", "https://a"}) {
    const Result<Target> target = parse_target(bad);
    ASSERT_FALSE(target.ok()) << bad;
    EXPECT_EQ(target.error().find('\n'), std::string::npos);
  }
}

TEST(Target, several_servers_are_of_one_protocol) {
  const std::vector<Target> targets = parse_targets("rpc://a:1,b:2,[::1]:3").value();
  ASSERT_EQ(targets.size(), 3u);
  EXPECT_EQ(targets[0].text(), "a:1");
  EXPECT_EQ(targets[1].text(), "b:2");
  EXPECT_EQ(targets[2].text(), "[::1]:3");
  EXPECT_EQ(targets[2].protocol, Protocol::kRpc);
  EXPECT_EQ(parse_targets("memcached://a,b").value()[1].port, 11211);
  for (const char* text : {"", "a:1", "rpc://a:1,", "rpc://,b:2", "rpc://a:1,resp://b:2",
                           "rpc://a:1,b"}) {
    EXPECT_FALSE(parse_targets(text)) << text;
  }
}

}  // namespace
}  // namespace rubato::load
