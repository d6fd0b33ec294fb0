// SPDX-License-Identifier: Apache-2.0
//
// What to look for in a text before toml++ (3.3, Debian 12) reads it: that version takes for
// granted that what follows '[' may be a name or a value, and that a letter beyond ASCII where a
// blank may stand is one of those its tables know; where it is wrong it does anything. Pure; any
// thread.
#pragma once

#include <cstddef>
#include <string_view>

namespace rubato {

// The first line (from 1) that toml++ must not be given, or 0: one with a '[' before anything that
// is neither name nor value, with a '}' that would close a '[', or with a byte beyond ASCII outside
// of texts in quotes and comments or, in a text of several lines, right behind a backslash and the
// blanks and line ends after it.
size_t line_beyond_toml(std::string_view text);

}  // namespace rubato
