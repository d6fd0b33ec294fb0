// SPDX-License-Identifier: Apache-2.0
#include "kv_server/memcached/parser.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace rubato::kv {
namespace {

class MemcachedParserTest : public ::testing::Test {
 protected:
  size_t parse(std::string_view input) {
    input_ = input;
    return parser_.parse(input_, request_, wanted_);
  }

  std::string input_;
  MemcachedParser parser_;
  MemcachedRequest request_;
  size_t wanted_ = 0;
};

TEST_F(MemcachedParserTest, reads_a_request_that_stores_with_its_data) {
  const std::string one = "set key 7 60 5\r\na\r\nbc\r\n";
  EXPECT_EQ(parse(one + "get key\r\n"), one.size());
  EXPECT_EQ(request_.verb, MemcachedVerb::kSet);
  EXPECT_EQ(request_.keys[0], "key");
  EXPECT_EQ(request_.flags, 7u);
  EXPECT_EQ(request_.exptime, 60);
  EXPECT_EQ(request_.data, "a\r\nbc");
  EXPECT_FALSE(request_.noreply);
}

TEST_F(MemcachedParserTest, says_how_much_more_data_are_to_come) {
  EXPECT_EQ(parse("set key 0 0 5"), 0u);
  EXPECT_EQ(wanted_, 0u);
  EXPECT_EQ(parse("set key 0 0 5\r\nab"), 0u);
  EXPECT_EQ(wanted_, std::string("set key 0 0 5\r\nabcde\r\n").size());
}

TEST_F(MemcachedParserTest, reads_several_keys_and_a_line_that_ends_without_return) {
  EXPECT_EQ(parse("gets a  bb noreply\n"), 19u);
  EXPECT_EQ(request_.verb, MemcachedVerb::kGets);
  ASSERT_EQ(request_.keys.size(), 3u);
  EXPECT_EQ(request_.keys[2], "noreply");  // a key like any other
}

TEST_F(MemcachedParserTest, gives_back_the_memory_of_many_words) {
  std::string line = "get";
  for (int i = 0; i < 1000; ++i) line += " k";
  EXPECT_EQ(parse(line + "\r\n"), line.size() + 2);
  ASSERT_GE(request_.keys.capacity(), 1000u);
  parser_.shrink(request_);
  EXPECT_EQ(request_.keys.capacity(), 0u);
  EXPECT_EQ(parse("get k\r\n"), 7u);
  parser_.shrink(request_);
  EXPECT_EQ(request_.keys.size(), 1u);  // the room of few stays
}

TEST_F(MemcachedParserTest, reads_numbers_and_noreply) {
  parse("cas k 0 -1 0 18446744073709551615 noreply\r\n\r\n");
  EXPECT_EQ(request_.verb, MemcachedVerb::kCas);
  EXPECT_EQ(request_.number, UINT64_MAX);
  EXPECT_EQ(request_.exptime, -1);
  EXPECT_TRUE(request_.noreply);
  parse("incr k 5\r\n");
  EXPECT_EQ(request_.verb, MemcachedVerb::kIncr);
  EXPECT_EQ(request_.number, 5u);
  EXPECT_FALSE(request_.noreply);
}

TEST_F(MemcachedParserTest, wrong_lines_are_answered_and_only_lost_streams_closed) {
  const std::string long_key(kMemcachedKeyBytes + 1, 'k');
  const std::string_view kBadDelete =
      "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]\r\n";
  const struct {
    std::string input;
    std::string_view error;
    bool close;
  } kCases[] = {
      {"\r\n", "ERROR\r\n", false},
      {"mg\r\n", "ERROR\r\n", false},
      {"mg key x\r\n", "CLIENT_ERROR invalid flag\r\n", false},
      {"ms\r\n", "ERROR\r\n", false},
      {"ms key\r\n", "CLIENT_ERROR bad command line format\r\n", false},
      {"ms key x\r\n", "CLIENT_ERROR bad data chunk\r\n", false},
      {"GET key\r\n", "ERROR\r\n", false},
      {"get\r\n", "ERROR\r\n", false},
      {"delete a 5\r\n", kBadDelete, false},
      {"delete a b c\r\n", kBadDelete, false},
      {"incr a -1\r\n", "CLIENT_ERROR invalid numeric delta argument\r\n", false},
      {"incr a 18446744073709551616\r\n", "CLIENT_ERROR invalid numeric delta argument\r\n", false},
      {"touch a soon\r\n", "CLIENT_ERROR invalid exptime argument\r\n", false},
      {"flush_all soon\r\n", "CLIENT_ERROR invalid exptime argument\r\n", false},
      {"verbosity high\r\n", "CLIENT_ERROR bad command line format\r\n", false},
      {"get " + long_key + "\r\n", "CLIENT_ERROR bad command line format\r\n", false},
      {"get a\x01 b\r\n", "CLIENT_ERROR bad command line format\r\n", false},
      {"set a 4294967296 0 1\r\nx\r\n", "CLIENT_ERROR bad command line format\r\n", false},
      {"set a 0 0 -1\r\n", "CLIENT_ERROR bad command line format\r\n", false},
      {"set a 0 0 2147483647\r\n", "CLIENT_ERROR bad command line format\r\n", false},
      {"ms a -1\r\n", "CLIENT_ERROR bad data chunk\r\n", false},
      {"set a 0 0 1\r\nabc\r\n", "CLIENT_ERROR bad data chunk\r\n", false},
      {std::string(kMemcachedLineBytes, 'x'), "CLIENT_ERROR line too long\r\n", true},
  };
  for (const auto& one : kCases) {
    EXPECT_GT(parse(one.input), 0u) << one.input;
    EXPECT_EQ(request_.verb, MemcachedVerb::kBad) << one.input;
    EXPECT_EQ(request_.error, one.error) << one.input;
    EXPECT_EQ(request_.close, one.close) << one.input;
  }
}

TEST_F(MemcachedParserTest, reads_meta_commands_with_their_flags) {
  EXPECT_EQ(parse("ms key 2 T5 q\r\nab\r\n"), 19u);
  EXPECT_EQ(request_.verb, MemcachedVerb::kMetaSet);
  EXPECT_EQ(request_.data, "ab");
  EXPECT_EQ(request_.words, (std::vector<std::string_view>{"T5", "q"}));
  parse("mg key v f\r\n");
  EXPECT_EQ(request_.verb, MemcachedVerb::kMetaGet);
  EXPECT_EQ(request_.words.size(), 2u);
  // What a faulty one stores is no request.
  EXPECT_EQ(parse("ms key 2 ?\r\nab\r\n"), 16u);
  EXPECT_EQ(request_.error, "CLIENT_ERROR invalid flag\r\n");
}

TEST_F(MemcachedParserTest, skips_the_data_of_an_item_that_is_too_large_as_they_come) {
  const std::string data(1024 * 1024 + 1, 'x');
  const std::string line = "set a 0 0 1048577\r\n";
  EXPECT_EQ(parse(line + data.substr(0, 1000)), line.size() + 1000);
  EXPECT_EQ(request_.verb, MemcachedVerb::kSet);
  EXPECT_TRUE(request_.too_large);
  const std::string rest = data.substr(1000) + "\r\n";
  EXPECT_EQ(parse(rest.substr(0, 5000)), 5000u);
  EXPECT_EQ(request_.verb, MemcachedVerb::kSkipped);
  EXPECT_EQ(parse(rest.substr(5000) + "get a\r\n"), rest.size() - 5000);
  EXPECT_EQ(request_.verb, MemcachedVerb::kSkipped);
  EXPECT_FALSE(request_.close);
  parse("get a\r\n");
  EXPECT_EQ(request_.verb, MemcachedVerb::kGet);
}

TEST_F(MemcachedParserTest, a_browser_is_not_answered) {
  for (const std::string line : {"POST / HTTP/1.1\r\n", "GET /x HTTP/1.0\r\n", "Host: a\r\n"}) {
    EXPECT_EQ(parse(line + "set a 0 0 1\r\nx\r\n"), line.size());
    EXPECT_EQ(request_.verb, MemcachedVerb::kSkipped) << line;
    EXPECT_TRUE(request_.close);
  }
}

}  // namespace
}  // namespace rubato::kv
