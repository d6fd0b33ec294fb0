// SPDX-License-Identifier: Apache-2.0
#include "load/reply_parser.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "load/testing/expect_cuts.h"

namespace rubato::load {
namespace {

using Status = ReplyParser::Status;

int count_replies(std::string_view bytes, size_t piece) {
  return load::count_replies<ReplyParser>(bytes, piece);
}

TEST(ReplyParser, finds_the_end_of_every_kind_of_reply_however_it_is_cut) {
  const std::vector<std::string> replies = {"+OK\r\n",
                                            "-ERR no\r\n",
                                            ":-12\r\n",
                                            "$5\r\nhello\r\n",
                                            "$0\r\n\r\n",
                                            "$-1\r\n",
                                            "*-1\r\n",
                                            "*0\r\n",
                                            "*2\r\n$1\r\na\r\n:1\r\n",
                                            "*2\r\n$1\r\n0\r\n*2\r\n$2\r\n\r\n\r\n*1\r\n*0\r\n",
                                            "_\r\n",
                                            "#t\r\n",
                                            ",1.5\r\n",
                                            "(123\r\n",
                                            "%1\r\n+a\r\n:1\r\n",
                                            "~1\r\n+x\r\n",
                                            "=7\r\ntxt:abc\r\n",
                                            "!3\r\nERR\r\n"};
  expect_replies_however_cut<ReplyParser>(replies);
}

TEST(ReplyParser, refuses_what_is_not_resp) {
  for (const char* bad : {"hello\r\n", "$x\r\n", "$\r\n", "$-2\r\n", "*1x\r\n", "+OK\rx",
                          "$99999999999\r\n", "*99999999999\r\n", "\r\n"}) {
    EXPECT_EQ(count_replies(bad, 1), -1) << bad;
  }
}

TEST(ReplyParser, stays_broken) {
  ReplyParser parser;
  size_t used = 0;
  EXPECT_EQ(parser.feed("x", 1, used), Status::kBroken);
  EXPECT_EQ(parser.feed("+OK\r\n", 5, used), Status::kBroken);
}

TEST(ReplyParser, keeps_the_text_of_an_error) {
  ReplyParser parser;
  size_t used = 0;
  const std::string bytes = "-ERR unknown command\r\n+OK\r\n";
  ASSERT_EQ(parser.feed(bytes.data(), bytes.size(), used), Status::kReply);
  EXPECT_TRUE(parser.is_error());
  EXPECT_EQ(parser.error_text(), "ERR unknown command");
  ASSERT_EQ(parser.feed(bytes.data() + used, bytes.size() - used, used), Status::kReply);
  EXPECT_FALSE(parser.is_error());
  EXPECT_EQ(parser.error_text(), "");
}

TEST(ReplyParser, an_error_inside_an_array_is_not_the_reply) {
  ReplyParser parser;
  size_t used = 0;
  const std::string bytes = "*2\r\n+OK\r\n-ERR inner\r\n";
  ASSERT_EQ(parser.feed(bytes.data(), bytes.size(), used), Status::kReply);
  EXPECT_FALSE(parser.is_error());
}

TEST(ReplyParser, long_lines_and_large_bodies_are_skipped) {
  EXPECT_EQ(count_replies("-" + std::string(5000, 'e') + "\r\n+OK\r\n", 100), 2);
  EXPECT_EQ(count_replies("$3000000\r\n" + std::string(3000000, 'x') + "\r\n+OK\r\n", 65536), 2);
}

TEST(ClassifyError, knows_refusals_by_their_first_word) {
  EXPECT_EQ(classify_error("OVERLOADED try later"), Outcome::kRefused);
  EXPECT_EQ(classify_error("THROTTLED"), Outcome::kRefused);
  EXPECT_EQ(classify_error("BUSY Redis is busy"), Outcome::kRefused);
  EXPECT_EQ(classify_error("BUSYGROUP exists"), Outcome::kError);
  EXPECT_EQ(classify_error("ERR wrong"), Outcome::kError);
}

}  // namespace
}  // namespace rubato::load
