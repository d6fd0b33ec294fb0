// SPDX-License-Identifier: Apache-2.0
//
// Lists in texts: "a, b, c" for people, "a,b,c" from options.
#pragma once

#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace rubato {

inline void add_name(std::string& list, std::string_view name) {
  if (!list.empty()) list += ", ";
  list += name;
}

// The parts of a list such as `fcfs,ps`; none of an empty text.
inline std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

}  // namespace rubato
