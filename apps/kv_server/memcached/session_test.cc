// SPDX-License-Identifier: Apache-2.0
#include "kv_server/memcached/session.h"

#include <gtest/gtest.h>

#include <string>

#include "kv_server/testing/harness.h"

namespace rubato::kv {
namespace {

using testing::Client;
using testing::Harness;

KvOptions with_memcached() {
  KvOptions options;
  options.ports = {Speaks::kResp, Speaks::kMemcached};
  return options;
}

struct MemcachedSessionTest : ::testing::Test {
  std::string send(std::string_view bytes) { return client.send(bytes); }

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

}  // namespace
}  // namespace rubato::kv
