// SPDX-License-Identifier: Apache-2.0
#include "base/toml_guard.h"

#include <gtest/gtest.h>

namespace rubato {
namespace {

TEST(TomlGuard, lets_pass_what_is_toml) {
  for (const char* text : {"", "\n\n", "a = 1\n[b]\nc = [1, 2]\n[[d]]\n[ \"e\" ]", "# \xc2\xb5s",
                           "a = \"\xc2\xb5\"", "x = [\n1]",
                           "x = [{a = [[1]]}, {}, \"}\"]\ny = {}"}) {
    EXPECT_EQ(line_beyond_toml(text), 0u) << text;
  }
}

TEST(TomlGuard, names_the_line_that_has_no_name_or_goes_beyond_ascii) {
  EXPECT_EQ(line_beyond_toml("[%]"), 1u);
  EXPECT_EQ(line_beyond_toml("a = 1\n\n[ ["), 3u);
  EXPECT_EQ(line_beyond_toml("a = [}"), 1u);
  EXPECT_EQ(line_beyond_toml("a = [{b = [1,\n}]"), 2u);
  EXPECT_EQ(line_beyond_toml("\xc7\xa2"), 1u);
  EXPECT_EQ(line_beyond_toml("a = 1\n[\xc7\xa2]\n"), 2u);
  EXPECT_EQ(line_beyond_toml("a.\xc7\xa2 = \"\xc7\xa2\""), 1u);
}

constexpr size_t kPasses = 0;

TEST(TomlGuard, looks_behind_texts_in_quotes) {
  EXPECT_EQ(line_beyond_toml("'\xEF\xBB\xBF$'\xEF\xBB\xBE$'#"), 1u);
  EXPECT_EQ(line_beyond_toml("a = 1\nb = \"x\" \xc3\xa9"), 2u);
  EXPECT_EQ(line_beyond_toml("a = '\\' \xc3\xa9"), 1u);  // a literal text knows no backslash
  EXPECT_EQ(line_beyond_toml("a = \"\" \xc3\xa9"), 1u);
  EXPECT_EQ(line_beyond_toml("a = \"\"\"x\"\"\"\xc3\xa9"), 1u);
  EXPECT_EQ(line_beyond_toml("a = \"\"\"x\"\"\"\"\"\xc3\xa9"), 1u);  // two are the text's own
  EXPECT_EQ(line_beyond_toml("a = '''\n'x''\n''' \xc3\xa9"), 3u);
  EXPECT_EQ(line_beyond_toml("a = 'x\n\xc3\xa9 = 1"), 2u);  // ends with its line
}

TEST(TomlGuard, lets_pass_any_letter_inside_quotes_and_comments) {
  EXPECT_EQ(line_beyond_toml("'\xc3\xa9' = \"\xc3\xa9\" # \"\xc3\xa9"), kPasses);
  EXPECT_EQ(line_beyond_toml("a = \"x\\\"\xc3\xa9\""), kPasses);
  EXPECT_EQ(line_beyond_toml("a = \"#\xc3\xa9\""), kPasses);
  EXPECT_EQ(line_beyond_toml("a = \"\"\"\"\xc3\xa9\"\"\xc3\xa9\n\\\"\"\"\xc3\xa9\"\"\""), kPasses);
  EXPECT_EQ(line_beyond_toml("a = '''\xc3\xa9\n\\'''\nb = '\xc3\xa9'"), kPasses);
}

// A quote in a number opens no text: toml++ reads it to its end before it looks what is in it.
TEST(TomlGuard, opens_a_text_only_where_one_may_begin) {
  EXPECT_EQ(line_beyond_toml("sOu =9'\xef\xbb\xbb"), 1u);
  EXPECT_EQ(line_beyond_toml("a = 9.'\xc3\xa9'"), 1u);
  EXPECT_EQ(line_beyond_toml("a = 9='\xc3\xa9'"), 1u);
  EXPECT_EQ(line_beyond_toml("a = ='\xc3\xa9'"), 1u);
  EXPECT_EQ(line_beyond_toml("a = [\n9='\xc3\xa9']"), 2u);
  EXPECT_EQ(line_beyond_toml("a = [{b=1}, 9='\xc3\xa9']"), 1u);
  EXPECT_EQ(line_beyond_toml("a = {b = 9{c='\xc3\xa9'"), 1u);
  EXPECT_EQ(line_beyond_toml("a = 1979-05-27 7'\xc3\xa9'"), 1u);
  EXPECT_EQ(line_beyond_toml("9='\xc3\xa9'"), kPasses);
  EXPECT_EQ(line_beyond_toml("a.'\xc3\xa9'.b=\"\xc3\xa9\"#\xc3\xa9"), kPasses);
  EXPECT_EQ(line_beyond_toml("[a.'\xc3\xa9']\n[['\xc3\xa9']]\nb='\xc3\xa9'"), kPasses);
  EXPECT_EQ(line_beyond_toml("a = [\n'\xc3\xa9',['\xc3\xa9'],\n{b='\xc3\xa9',c={d='\xc3\xa9'}},"
                             "'\xc3\xa9',9]\nb='\xc3\xa9'"),
            kPasses);
  EXPECT_EQ(line_beyond_toml("a = 9#\xc3\xa9\nb = {c = 1}\nd='\xc3\xa9'"), kPasses);
}

TEST(TomlGuard, takes_a_bracket_for_a_section_only_outside_of_texts) {
  EXPECT_EQ(line_beyond_toml("a = '''\n[%]\n'''\nb = 1"), kPasses);
  EXPECT_EQ(line_beyond_toml("a = '''\n[%]\n'''\n[%]"), 4u);
}

// toml++ asks there whether it is a blank.
TEST(TomlGuard, refuses_a_letter_beyond_ascii_behind_a_backslash_in_a_long_text) {
  EXPECT_EQ(line_beyond_toml("a = \"\"\"\\\xc3\xa9\"\"\""), 1u);
  EXPECT_EQ(line_beyond_toml("a = \"\"\"\\\n\n \xc3\xa9\"\"\""), 3u);
  EXPECT_EQ(line_beyond_toml("a = \"\"\"\\  \n \t\xc3\xa9\"\"\""), 2u);
  EXPECT_EQ(line_beyond_toml("a = \"\"\"\\\n x\xc3\xa9\"\"\""), kPasses);
  EXPECT_EQ(line_beyond_toml("a = \"\"\"\\n\xc3\xa9\"\"\""), kPasses);
  EXPECT_EQ(line_beyond_toml("a = '''\\\n \xc3\xa9'''"), kPasses);
}

}  // namespace
}  // namespace rubato
