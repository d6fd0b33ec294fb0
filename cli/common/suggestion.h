// SPDX-License-Identifier: Apache-2.0
//
// Suggestions for misspelt words. Pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rubato::cli {

// "; did you mean X?" where one of `known` is near, else nothing.
std::string suggestion(std::string_view word, const std::vector<std::string>& known);

// "a, b or c"
std::string any_of(const std::vector<std::string>& names);

}  // namespace rubato::cli
