// SPDX-License-Identifier: Apache-2.0
//
// Lists for people: "a, b, c".
#pragma once

#include <string>
#include <string_view>

namespace rubato {

inline void add_name(std::string& list, std::string_view name) {
  if (!list.empty()) list += ", ";
  list += name;
}

}  // namespace rubato
