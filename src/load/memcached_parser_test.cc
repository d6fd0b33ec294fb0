// SPDX-License-Identifier: Apache-2.0
#include "load/memcached_parser.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "load/testing/expect_cuts.h"

namespace rubato::load {
namespace {

using Status = MemcachedParser::Status;

int count_replies(std::string_view bytes, size_t piece) {
  return load::count_replies<MemcachedParser>(bytes, piece);
}

const std::vector<std::string> kReplies = {
    "END\r\n",
    "STORED\r\n",
    "NOT_STORED\r\n",
    "EXISTS\r\n",
    "DELETED\r\n",
    "NOT_FOUND\r\n",
    "TOUCHED\r\n",
    "OK\r\n",
    "0\r\n",
    "18446744073709551615\r\n",
    "VERSION 1.6.18\r\n",
    "ERROR\r\n",
    "ERROR Too many open connections\r\n",
    "CLIENT_ERROR bad command line format\r\n",
    "SERVER_ERROR out of memory storing object\r\n",
    "VALUE k 0 3\r\none\r\nEND\r\n",
    "VALUE k 4294967295 0\r\n\r\nEND\r\n",
    "VALUE k 0 5 18446744073709551615\r\nEND\r\n\r\nEND\r\n",
    "VALUE a 0 1\r\n\r\r\nVALUE b 7 12\r\nSTORED\r\nEND\n\r\nEND\r\n",
    "VALUE a 0 1\r\nx\r\nSERVER_ERROR out of memory writing get response\r\n"};

TEST(MemcachedParser, finds_the_end_of_every_kind_of_reply_however_it_is_cut) {
  expect_replies_however_cut<MemcachedParser>(kReplies);
}

TEST(MemcachedParser, a_reply_is_over_with_its_last_byte) {
  for (const std::string& reply : kReplies) {
    const std::string bytes = reply + "END\r\n";
    MemcachedParser parser;
    size_t used = 0;
    EXPECT_EQ(parser.feed(bytes.data(), bytes.size(), used), Status::kReply);
    EXPECT_EQ(used, reply.size()) << reply;
  }
}

TEST(MemcachedParser, refuses_what_is_not_the_text_protocol) {
  const std::string long_key(MemcachedParser::kMaxKey + 1, 'k');
  for (const std::string& bad :
       {std::string("\r\n"), std::string("\n"), std::string("END\n"), std::string("END \r\n"),
        std::string("+OK\r\n"), std::string("$-1\r\n"), std::string("-ERR no\r\n"),
        std::string("HTTP/1.1 400 Bad Request\r\n"), std::string("HD\r\n"),
        std::string("-1\r\n"), std::string("1 \r\n"), std::string("18446744073709551616\r\n"),
        std::string("VALUE\r\n"), std::string("VALUE k\r\n"), std::string("VALUE k 0\r\n"),
        std::string("VALUE k 0 -1\r\n"), std::string("VALUE k x 1\r\n"),
        std::string("VALUE  0 1\r\n"), std::string("VALUE k 4294967296 1\r\n"),
        std::string("VALUE k 0 1 x\r\n"), std::string("VALUE k 0 1 1 1\r\n"),
        std::string("VALUE k 0 1073741825\r\n"), "VALUE " + long_key + " 0 1\r\n",
        std::string("VALUE k 0 1\r\nxy\r\n"), std::string("VALUE k 0 1\r\nx\rEND\r\n"),
        std::string("VALUE k 0 1\r\nx\r\nSTORED\r\n"), std::string("VALUE k 0 1\r\nx\r\n7\r\n")}) {
    EXPECT_EQ(count_replies(bad, 1), -1) << bad;
    EXPECT_EQ(count_replies(bad, 1000), -1) << bad;
  }
}

TEST(MemcachedParser, a_line_without_an_end_is_refused_when_it_is_longer_than_any_reply) {
  EXPECT_EQ(count_replies(std::string(MemcachedParser::kMaxLine, 'x'), 7), 0);
  EXPECT_EQ(count_replies(std::string(MemcachedParser::kMaxLine + 1, 'x'), 7), -1);
}

TEST(MemcachedParser, stays_broken) {
  MemcachedParser parser;
  size_t used = 0;
  EXPECT_EQ(parser.feed("x\r\n", 3, used), Status::kBroken);
  EXPECT_EQ(parser.feed("END\r\n", 5, used), Status::kBroken);
}

TEST(MemcachedParser, keeps_the_line_of_an_error) {
  MemcachedParser parser;
  size_t used = 0;
  const std::string bytes = "SERVER_ERROR out of memory\r\nEND\r\n";
  ASSERT_EQ(parser.feed(bytes.data(), bytes.size(), used), Status::kReply);
  EXPECT_TRUE(parser.is_error());
  EXPECT_EQ(parser.error_text(), "SERVER_ERROR out of memory");
  ASSERT_EQ(parser.feed(bytes.data() + used, bytes.size() - used, used), Status::kReply);
  EXPECT_FALSE(parser.is_error());
  EXPECT_EQ(parser.error_text(), "");
}

TEST(MemcachedParser, long_errors_are_cut_and_large_values_skipped) {
  const std::string text = "CLIENT_ERROR " + std::string(5000, 'e');
  MemcachedParser parser;
  size_t used = 0;
  ASSERT_EQ(parser.feed((text + "\r\n").data(), text.size() + 2, used), Status::kReply);
  EXPECT_EQ(parser.error_text(), text.substr(0, MemcachedParser::kMaxLine));
  EXPECT_EQ(count_replies(text + "\r\nEND\r\n", 100), 2);
  EXPECT_EQ(count_replies("VALUE k 0 3000000\r\n" + std::string(3000000, 'x') + "\r\nEND\r\n",
                          65536),
            1);
}

TEST(ClassifyMemcachedError, knows_the_refusal_of_an_overloaded_server) {
  EXPECT_EQ(classify_memcached_error("SERVER_ERROR overloaded short retry-after-ms 12"),
            Outcome::kRefused);
  EXPECT_EQ(classify_memcached_error("SERVER_ERROR overloaded"), Outcome::kRefused);
  EXPECT_EQ(classify_memcached_error("SERVER_ERROR overloadedness"), Outcome::kError);
  EXPECT_EQ(classify_memcached_error("SERVER_ERROR out of memory"), Outcome::kError);
  EXPECT_EQ(classify_memcached_error("ERROR"), Outcome::kError);
}

}  // namespace
}  // namespace rubato::load
