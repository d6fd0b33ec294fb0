// SPDX-License-Identifier: Apache-2.0
#include "kv_server/resp/parser.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "base/prng.h"

namespace rubato::kv {
namespace {

using State = RequestParser::State;
using Words = std::vector<std::string>;

struct Parsed {
  State state = State::kIncomplete;
  Words words;
  size_t length = 0;
  std::string error;
  bool operator==(const Parsed&) const = default;
};

Parsed result_of(const RequestParser& parser, State state) {
  Parsed parsed;
  parsed.state = state;
  if (state == State::kError) parsed.error = parser.error();
  if (state != State::kComplete) return parsed;
  parsed.length = parser.length();
  for (std::string_view arg : parser.argv()) parsed.words.emplace_back(arg);
  return parsed;
}

Parsed parse(std::string_view input, bool authenticated = true) {
  RequestParser parser;
  return result_of(parser, parser.parse(input, authenticated));
}

// Gives the input in pieces, each time in another buffer.
Parsed parse_in_pieces(std::string_view input, Prng& random, uint32_t max_piece,
                       bool authenticated = true) {
  RequestParser parser;
  std::string buffer;
  size_t given = 0;
  while (true) {
    given = std::min(input.size(), given + 1 + random.below(max_piece));
    buffer = std::string(input.substr(0, given)) + std::string(random.below(3), 'x');
    const State state = parser.parse(std::string_view(buffer).substr(0, given), authenticated);
    if (state != State::kIncomplete || given == input.size()) return result_of(parser, state);
  }
}

uint64_t test_seed() {
  const char* text = std::getenv("RUBATO_SEED");
  const uint64_t seed = text != nullptr ? std::strtoull(text, nullptr, 10) : 1;
  ::testing::Test::RecordProperty("seed", std::to_string(seed));
  return seed;
}

TEST(RequestParser, reads_an_array_of_bulk_strings) {
  const std::string input = "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\na\r\nb\n\r\n*1\r\n";
  const Parsed parsed = parse(input);
  EXPECT_EQ(parsed.state, State::kComplete);
  EXPECT_EQ(parsed.words, (Words{"SET", "k", "a\r\nb\n"}));
  EXPECT_EQ(parsed.length, input.size() - 4);
}

TEST(RequestParser, arguments_are_views_into_the_input) {
  const std::string input = "*1\r\n$4\r\nPING\r\n";
  RequestParser parser;
  ASSERT_EQ(parser.parse(input, true), State::kComplete);
  EXPECT_EQ(parser.argv()[0].data(), input.data() + 8);
}

TEST(RequestParser, reads_inline_commands_with_quotes) {
  EXPECT_EQ(parse("PING\r\n").words, (Words{"PING"}));
  EXPECT_EQ(parse("  SET  a\t1 \n").words, (Words{"SET", "a", "1"}));
  EXPECT_EQ(parse("SET \"a b\\x41\\n\\q\" 'it\\'s' \"\"\n").words,
            (Words{"SET", "a bA\nq", "it's", ""}));
  EXPECT_EQ(parse("a\"b c\" d\n").words, (Words{"ab c", "d"}));
}

TEST(RequestParser, refuses_unbalanced_quotes) {
  for (const char* line : {"\"abc\n", "'abc\n", "\"a\"b\n", "'a'b\n", "\"\\\n", "\"a\\\"\n"}) {
    EXPECT_EQ(parse(line).error, "Protocol error: unbalanced quotes in request") << line;
  }
}

TEST(RequestParser, an_empty_request_is_complete_and_has_no_arguments) {
  for (const char* input : {"\r\n", "\n", "   \r\n", "*0\r\n", "*-1\r\n", "*-10\r\n"}) {
    const Parsed parsed = parse(input);
    EXPECT_EQ(parsed.state, State::kComplete) << input;
    EXPECT_TRUE(parsed.words.empty());
    EXPECT_EQ(parsed.length, std::string_view(input).size());
  }
}

TEST(RequestParser, says_what_is_wrong_in_the_words_of_redis) {
  const auto error = [](std::string_view input) { return parse(input).error; };
  EXPECT_EQ(error("*abc\r\n"), "Protocol error: invalid multibulk length");
  EXPECT_EQ(error("*3000000000\r\n"), "Protocol error: invalid multibulk length");
  EXPECT_EQ(error("*01\r\n"), "Protocol error: invalid multibulk length");
  EXPECT_EQ(error("*1\r\nfoo\r\n"), "Protocol error: expected '$', got 'f'");
  EXPECT_EQ(error("*1\r\n\r\n"), "Protocol error: expected '$', got ' '");
  EXPECT_EQ(error("*1\r\n$-1\r\n"), "Protocol error: invalid bulk length");
  EXPECT_EQ(error("*1\r\n$2000000000\r\n"), "Protocol error: invalid bulk length");
  EXPECT_EQ(error("*1\r\n$x\r\n"), "Protocol error: invalid bulk length");
  EXPECT_EQ(error("*" + std::string(70'000, '1')),
            "Protocol error: too big mbulk count string");
  EXPECT_EQ(error("*1\r\n$" + std::string(70'000, '1')),
            "Protocol error: too big bulk count string");
  EXPECT_EQ(error(std::string(70'000, 'a')), "Protocol error: too big inline request");
}

TEST(RequestParser, a_client_without_password_may_send_little) {
  EXPECT_EQ(parse("*11\r\n", false).error, "Protocol error: unauthenticated multibulk length");
  EXPECT_EQ(parse("*1\r\n$16385\r\n", false).error,
            "Protocol error: unauthenticated bulk length");
  EXPECT_EQ(parse("*10\r\n$16384\r\n", false).state, State::kIncomplete);
}

TEST(RequestParser, tells_how_many_bytes_a_big_argument_needs) {
  RequestParser parser;
  EXPECT_EQ(parser.parse("*1\r\n$100000\r\nab", true), State::kIncomplete);
  EXPECT_EQ(parser.length(), 4U + 9 + 100'000 + 2);
}

TEST(RequestParser, can_be_used_again_after_reset) {
  RequestParser parser;
  ASSERT_EQ(parser.parse("*2\r\n$1\r\na\r\n$1\r\nb\r\n", true), State::kComplete);
  parser.reset();
  ASSERT_EQ(parser.parse("\"x\"\n", true), State::kComplete);
  EXPECT_EQ(parser.argv()[0], "x");
  parser.reset();
  ASSERT_EQ(parser.parse("*1\r\n$1\r\nc\r\n", true), State::kComplete);
  EXPECT_EQ(parser.argv().size(), 1U);
}

// Requests, nearly requests, and noise.
std::string random_input(Prng& random) {
  static const char* const kPieces[] = {"*1\r\n", "*2\r\n",  "*12\r\n", "$1\r\n", "$3\r\n", "a\r\n",
                                        "abc\r\n", "\r\n",   "\n",      "\"",     "'",      "\\x4",
                                        "GET k",   "$-1\r\n", "*0\r\n", " ",      "\r",     "$"};
  if (random.below(4) == 0) {
    const uint32_t args = 1 + random.below(5);
    std::string input = "*" + std::to_string(args) + "\r\n";
    for (uint32_t i = 0; i < args; ++i) {
      const std::string arg(random.below(40), static_cast<char>('a' + random.below(26)));
      input += "$" + std::to_string(arg.size()) + "\r\n" + arg + "\r\n";
    }
    return input + "*1\r\n$4\r\nPING\r\n";
  }
  std::string input;
  const uint32_t pieces = random.below(8);
  for (uint32_t i = 0; i < pieces; ++i) input += kPieces[random.below(std::size(kPieces))];
  return input;
}

TEST(RequestParser, every_split_of_the_input_gives_what_one_call_gives) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE("RUBATO_SEED=" + std::to_string(seed));
  Prng random(seed);
  for (int round = 0; round < 20'000; ++round) {
    const std::string input = random_input(random);
    const bool authenticated = random.below(2) == 0;
    const Parsed whole = parse(input, authenticated);
    ASSERT_EQ(parse_in_pieces(input, random, 1, authenticated), whole) << input;
    ASSERT_EQ(parse_in_pieces(input, random, 7, authenticated), whole) << input;
  }
}

TEST(RequestParser, every_split_of_an_oversized_line_gives_what_one_call_gives) {
  Prng random(test_seed());
  for (const size_t size : {65'535U, 65'536U, 65'537U, 65'538U}) {
    for (const std::string start : {"", "*", "*1\r\n$"}) {
      const std::string input = start + std::string(size - 1, '1') + "\r\n";
      EXPECT_EQ(parse_in_pieces(input, random, 5'000), parse(input)) << start << size;
    }
  }
}

}  // namespace
}  // namespace rubato::kv
