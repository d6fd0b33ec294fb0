// SPDX-License-Identifier: Apache-2.0
#include "kv_server/resp/reply.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>

namespace rubato::kv {
namespace {

std::string written(RespVersion version, const std::function<void(Reply&)>& write) {
  ReplyBuffer buffer;
  Reply reply(buffer, version);
  write(reply);
  return std::string(buffer.unsent());
}

void expect_both(const std::string& resp2, const std::string& resp3,
                 const std::function<void(Reply&)>& write) {
  EXPECT_EQ(written(RespVersion::k2, write), resp2);
  EXPECT_EQ(written(RespVersion::k3, write), resp3);
}

TEST(Reply, integers_of_every_width) {
  const auto text = [](int64_t value) {
    return written(RespVersion::k2, [value](Reply& r) { r.integer(value); });
  };
  EXPECT_EQ(text(0), ":0\r\n");
  EXPECT_EQ(text(9), ":9\r\n");
  EXPECT_EQ(text(10), ":10\r\n");
  EXPECT_EQ(text(-1), ":-1\r\n");
  EXPECT_EQ(text(INT64_MIN), ":-9223372036854775808\r\n");
}

TEST(Reply, bulk_strings_of_every_length) {
  for (const size_t size : {0U, 1U, 9U, 10U, 99U, 100U, 5000U}) {
    const std::string bytes(size, 'x');
    EXPECT_EQ(written(RespVersion::k2, [&](Reply& r) { r.bulk(bytes); }),
              "$" + std::to_string(size) + "\r\n" + bytes + "\r\n");
  }
}

TEST(Reply, nulls_and_aggregates_follow_the_version) {
  expect_both("$-1\r\n", "_\r\n", [](Reply& r) { r.null(); });
  expect_both("*-1\r\n", "_\r\n", [](Reply& r) { r.null_array(); });
  expect_both("*4\r\n", "%2\r\n", [](Reply& r) { r.map(2); });
  expect_both("*2\r\n", "~2\r\n", [](Reply& r) { r.set(2); });
  expect_both("*2\r\n", ">2\r\n", [](Reply& r) { r.push(2); });
  expect_both("*12\r\n", "*12\r\n", [](Reply& r) { r.array(12); });
}

TEST(Reply, doubles_booleans_and_texts_follow_the_version) {
  expect_both("$3\r\n1.5\r\n", ",1.5\r\n", [](Reply& r) { r.real(1.5); });
  expect_both(":1\r\n", "#t\r\n", [](Reply& r) { r.boolean(true); });
  expect_both(":0\r\n", "#f\r\n", [](Reply& r) { r.boolean(false); });
  expect_both("$2\r\nhi\r\n", "=6\r\ntxt:hi\r\n", [](Reply& r) { r.verbatim("txt", "hi"); });
}

TEST(Reply, an_error_stays_on_one_line) {
  EXPECT_EQ(written(RespVersion::k2, [](Reply& r) { r.error("ERR a\r\nb"); }), "-ERR a  b\r\n");
}

TEST(Reply, a_full_buffer_drops_and_is_marked) {
  ReplyBuffer buffer(16);
  Reply(buffer, RespVersion::k2).bulk(std::string(100, 'x'));
  EXPECT_TRUE(buffer.overflowed());
}

}  // namespace
}  // namespace rubato::kv
