// SPDX-License-Identifier: Apache-2.0
//
// Explanation: what a policy says of a plan in lines for people, one sentence each. A host makes
// one, hands it to hook::explain with a copy of the plan, and shows the lines. For slow paths; a
// plain value of its maker.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/limits.h"

namespace rubato {

// How people call a request type.
using TypeNames = std::function<std::string(uint32_t)>;

class Explanation {
 public:
  // Types from 0 (unknown) to types-1 have names.
  Explanation(TypeNames name_of, uint32_t types) : name_of_(std::move(name_of)), types_(types) {}

  void line(std::string text) { lines_.push_back(std::move(text)); }
  std::vector<std::string> take() { return std::move(lines_); }

  // For policies that tell types apart, the last slot stands for all higher types as well.
  std::string type(uint32_t type) const {
    if (type >= types_) return "type " + std::to_string(type);
    const bool shared = type == limits::kTypes - 1 && types_ > limits::kTypes;
    return name_of_(type) + (shared ? " and later types" : "");
  }

  // "no worker", "worker 3", "workers 3 to 7": those from `first` on, `count` of them.
  static std::string workers(uint32_t first, uint32_t count) {
    if (count == 0) return "no worker";
    if (count == 1) return "worker " + std::to_string(first);
    return "workers " + std::to_string(first) + " to " + std::to_string(first + count - 1);
  }

 private:
  TypeNames name_of_;
  uint32_t types_;
  std::vector<std::string> lines_;
};

}  // namespace rubato
