// SPDX-License-Identifier: Apache-2.0
#include "load/command_template.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "load/reply_parser.h"

namespace rubato::load {
namespace {

const KvShape kShape{.keys = 1, .value_size_bytes = 3, .scan_limit = 20};

std::string bytes_of(std::string_view text, const KvShape& shape = kShape, uint64_t seed = 1) {
  const Result<CommandTemplate> command = CommandTemplate::parse(text);
  EXPECT_TRUE(command.ok()) << text << ' ' << command.error();
  Prng prng(seed);
  std::string out;
  if (command.ok()) command.value().append({shape, "vvv", 1, prng, out});
  return out;
}

TEST(CommandTemplate, is_a_name_and_arguments) {
  EXPECT_EQ(bytes_of("dbsize"), "*1\r\n$6\r\ndbsize\r\n");
  EXPECT_EQ(bytes_of("JSON.GET/doc"), "*2\r\n$8\r\nJSON.GET\r\n$3\r\ndoc\r\n");
  EXPECT_EQ(bytes_of("lrange/mylist/0/-1"),
            "*4\r\n$6\r\nlrange\r\n$6\r\nmylist\r\n$1\r\n0\r\n$2\r\n-1\r\n");
  EXPECT_EQ(bytes_of("get/user:7 a=b"), "*2\r\n$3\r\nget\r\n$10\r\nuser:7 a=b\r\n");
}

TEST(CommandTemplate, keys_and_values_stand_where_they_are_named) {
  EXPECT_EQ(bytes_of("strlen/{key}"), "*2\r\n$6\r\nstrlen\r\n$16\r\nkey:000000000000\r\n");
  EXPECT_EQ(bytes_of("hset/h:{key}:x/f/{value}{value}"),
            "*4\r\n$4\r\nhset\r\n$20\r\nh:key:000000000000:x\r\n$1\r\nf\r\n$6\r\nvvvvvv\r\n");
}

TEST(CommandTemplate, every_key_is_drawn_anew) {
  const KvShape shape{.keys = 1'000'000, .value_size_bytes = 1, .scan_limit = 1};
  const std::string bytes = bytes_of("exists/{key}/{key}", shape);
  const size_t first = bytes.find("key:"), second = bytes.rfind("key:");
  EXPECT_NE(bytes.substr(first, 16), bytes.substr(second, 16));
  std::set<std::string> drawn;
  for (uint64_t seed = 0; seed < 20; ++seed) drawn.insert(bytes_of("get/{key}", shape, seed));
  EXPECT_EQ(drawn.size(), 20u);
  EXPECT_EQ(bytes_of("get/{key}", shape, 3), bytes_of("get/{key}", shape, 3));
}

TEST(CommandTemplate, any_byte_can_be_written) {
  EXPECT_EQ(bytes_of("echo/a%2fb%2Cc%3a%25%7Bkey}%00"),
            std::string("*2\r\n$4\r\necho\r\n$13\r\na/b,c:%{key}\0\r\n", 34));
}

TEST(CommandTemplate, is_one_well_formed_command) {
  for (const char* text : {"ping", "set/{key}/{value}", "mset/{key}/%0d%0a/{key}/{value}"}) {
    const std::string bytes = bytes_of(text);
    ReplyParser parser;
    size_t used = 0;
    EXPECT_EQ(parser.feed(bytes.data(), bytes.size(), used), ReplyParser::Status::kReply) << text;
    EXPECT_EQ(used, bytes.size()) << text;
  }
}

TEST(CommandTemplate, what_is_malformed_is_told) {
  for (const char* bad : {"", "/", "7", "{key}", "a b", "a:b", "get/", "get//x", "get/x/",
                          "get/{key", "get/{}", "get/{Key}", "get/x{", "get/%", "get/%2",
                          "get/%2g", "get/%-1", "get/x%", "SUBSCRIBE/x", "monitor", "Psync/?/-1"}) {
    const Result<CommandTemplate> command = CommandTemplate::parse(bad);
    ASSERT_FALSE(command.ok()) << bad;
    EXPECT_FALSE(command.error().empty());
    EXPECT_EQ(command.error().find('\n'), std::string::npos);
  }
}

}  // namespace
}  // namespace rubato::load
