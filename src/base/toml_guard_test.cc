// SPDX-License-Identifier: Apache-2.0
#include "base/toml_guard.h"

#include <gtest/gtest.h>

namespace rubato {
namespace {

TEST(TomlGuard, lets_pass_what_is_toml) {
  for (const char* text : {"", "\n\n", "a = 1\n[b]\nc = [1, 2]\n[[d]]\n[ \"e\" ]", "# \xc2\xb5s",
                           "a = \"\xc2\xb5\"", "x = [\n1]"}) {
    EXPECT_EQ(line_beyond_toml(text), 0u) << text;
  }
}

TEST(TomlGuard, names_the_line_that_has_no_name_or_goes_beyond_ascii) {
  EXPECT_EQ(line_beyond_toml("[%]"), 1u);
  EXPECT_EQ(line_beyond_toml("a = 1\n\n[ ["), 3u);
  EXPECT_EQ(line_beyond_toml("\xc7\xa2"), 1u);
  EXPECT_EQ(line_beyond_toml("a = 1\n[\xc7\xa2]\n"), 2u);
  EXPECT_EQ(line_beyond_toml("a.\xc7\xa2 = \"\xc7\xa2\""), 1u);
}

}  // namespace
}  // namespace rubato
