// SPDX-License-Identifier: Apache-2.0
#include "kv_server/text/glob.h"

#include <gtest/gtest.h>

#include <string>

namespace rubato::kv {
namespace {

TEST(Glob, stars_and_question_marks) {
  EXPECT_TRUE(glob_match("*", ""));
  EXPECT_TRUE(glob_match("a*b*c", "axxbxxc"));
  EXPECT_FALSE(glob_match("a*b*c", "axxbxx"));
  EXPECT_TRUE(glob_match("h?llo", "hello"));
  EXPECT_FALSE(glob_match("h?llo", "hllo"));
  EXPECT_TRUE(glob_match("***", "x"));
}

TEST(Glob, classes_ranges_and_negation) {
  EXPECT_TRUE(glob_match("h[ae]llo", "hallo"));
  EXPECT_FALSE(glob_match("h[^e]llo", "hello"));
  EXPECT_TRUE(glob_match("[z-a]", "m"));
  EXPECT_TRUE(glob_match("[\\]]", "]"));
  EXPECT_TRUE(glob_match("[abc", "c"));
  EXPECT_FALSE(glob_match("[]", "]"));
  EXPECT_TRUE(glob_match("[A-C]", "b", GlobCase::kIgnore));
}

TEST(Glob, a_backslash_takes_the_next_byte_as_it_is) {
  EXPECT_TRUE(glob_match("a\\*b", "a*b"));
  EXPECT_FALSE(glob_match("a\\*b", "axb"));
  EXPECT_TRUE(glob_match("a\\", "a\\"));
}

TEST(Glob, case_matters_unless_told_otherwise) {
  EXPECT_FALSE(glob_match("ABC*", "abcd"));
  EXPECT_TRUE(glob_match("ABC*", "abcd", GlobCase::kIgnore));
}

TEST(Glob, a_pattern_of_many_stars_is_not_slow) {
  std::string pattern;
  for (int i = 0; i < 1000; ++i) pattern += "a*";
  EXPECT_FALSE(glob_match(pattern + "b", std::string(10'000, 'a')));
}

TEST(Glob, a_pattern_of_too_many_stars_matches_nothing) {
  std::string pattern;
  for (size_t i = 0; i < kMaxGlobStars; ++i) pattern += "**a";
  EXPECT_TRUE(glob_match(pattern + "*", std::string(kMaxGlobStars, 'a')));
  EXPECT_FALSE(glob_match(pattern + "*a", std::string(kMaxGlobStars + 1, 'a')));
}

TEST(Glob, the_literal_prefix_ends_at_the_first_special_byte) {
  EXPECT_EQ(glob_literal_prefix("user:*"), "user:");
  EXPECT_EQ(glob_literal_prefix("plain"), "plain");
  EXPECT_EQ(glob_literal_prefix("*"), "");
  EXPECT_EQ(glob_literal_prefix("a\\*"), "a");
}

}  // namespace
}  // namespace rubato::kv
