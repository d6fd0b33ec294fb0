// SPDX-License-Identifier: Apache-2.0
#include "load/http_parser.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "load/testing/expect_cuts.h"

namespace rubato::load {
namespace {

using Status = HttpParser::Status;

int count_replies(std::string_view bytes, size_t piece) {
  return load::count_replies<HttpParser>(bytes, piece);
}

const std::vector<std::string> kReplies = {
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    "HTTP/1.0 200 OK\r\ncontent-length:0\r\n\r\n",
    "HTTP/1.1 200\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n\n",
    "HTTP/1.1 204 No Content\r\nDate: today\r\n\r\n",
    "HTTP/1.1 304 Not Modified\r\nContent-Length: 500\r\n\r\n",
    "HTTP/1.1 200 OK\nContent-Length: 2\n\nOK",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n5\r\nhello\r\n"
    "A;name=\"x\"\r\n0123456789\r\n"
    "0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nTrailer: x\r\n\r\n",
    "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 500 Oh\r\nContent-Length: 3\r\n\r\nbad"};

TEST(HttpParser, finds_the_end_of_every_kind_of_response_however_it_is_cut) {
  expect_replies_however_cut<HttpParser>(kReplies);
}

TEST(HttpParser, refuses_what_is_not_http) {
  for (const char* bad :
       {"+OK\r\n", "HTTP/2 200\r\n", "HTTP/1.1 20\r\n", "HTTP/1.1 2000 OK\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: x\r\n", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n",
        "HTTP/1.1 200 OK\r\nnonsense\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
        "HTTP/1.1 101 Switching Protocols\r\n\r\n"}) {
    EXPECT_EQ(count_replies(bad, 1000), -1) << bad;
    EXPECT_EQ(count_replies(bad, 1), -1) << bad;
  }
}

// Whether the connection stays after the one response that `bytes` are.
bool closes(const std::string& bytes) {
  HttpParser parser;
  size_t used = 0;
  const bool whole = parser.feed(bytes.data(), bytes.size(), used) == Status::kReply;
  EXPECT_TRUE(whole || parser.end_of_stream()) << bytes;
  return parser.closes();
}

TEST(HttpParser, tells_whether_the_connection_takes_another_request) {
  const std::string length = "Content-Length: 1\r\n", end = "\r\nx";
  EXPECT_FALSE(closes("HTTP/1.1 200 OK\r\n" + length + end));
  EXPECT_FALSE(closes("HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\n" + length + end));
  EXPECT_TRUE(closes("HTTP/1.0 200 OK\r\n" + length + end));
  for (const char* line : {"connection: Close", "Connection: x, close", "Connection: close,y",
                           "Connection: close, keep-alive"}) {
    EXPECT_TRUE(closes("HTTP/1.1 200 OK\r\n" + length + line + "\r\n" + end)) << line;
  }
}

TEST(HttpParser, a_response_without_a_length_ends_with_its_connection) {
  for (const char* head : {"HTTP/1.1 200 OK\r\n\r\n",
                           "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, gzip\r\n\r\n",
                           "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n"}) {
    EXPECT_EQ(count_replies(head + std::string("any\r\nbytes"), 3), 0) << head;
    EXPECT_TRUE(closes(head + std::string("any\r\nbytes"))) << head;
  }
  HttpParser parser;
  EXPECT_FALSE(parser.end_of_stream());
  size_t used = 0;
  const std::string cut = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel";
  ASSERT_EQ(parser.feed(cut.data(), cut.size(), used), Status::kMore);
  EXPECT_FALSE(parser.end_of_stream());
}

TEST(HttpParser, a_head_without_an_end_is_refused_and_a_long_header_skipped) {
  const std::string head = "HTTP/1.1 200 OK\r\nCookie: ";
  EXPECT_EQ(count_replies(head + std::string(HttpParser::kMaxHeaders, 'x'), 4096), -1);
  EXPECT_EQ(count_replies(head + std::string(3 * HttpParser::kMaxLine, 'x') +
                              "\r\nContent-Length: 0\r\n\r\n",
                          100),
            1);
}

TEST(HttpParser, keeps_the_status_line_of_an_error) {
  for (const auto& [text, outcome] : {std::pair{"HTTP/1.1 503 Too Busy", Outcome::kRefused},
                                      {"HTTP/1.1 429 Slow Down", Outcome::kRefused},
                                      {"HTTP/1.1 404 Not Found", Outcome::kError},
                                      {"HTTP/1.1 500", Outcome::kError}}) {
    HttpParser parser;
    size_t used = 0;
    const std::string bytes = std::string(text) + "\r\nContent-Length: 0\r\n\r\n";
    ASSERT_EQ(parser.feed(bytes.data(), bytes.size(), used), Status::kReply);
    EXPECT_TRUE(parser.is_error());
    EXPECT_EQ(parser.error_text(), text);
    EXPECT_EQ(classify_http_error(parser.error_text()), outcome);
  }
}

}  // namespace
}  // namespace rubato::load
