// SPDX-License-Identifier: Apache-2.0
//
// Foreign work registers itself by objects of static storage, as the libraries that are not
// installed are left out of the program.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tests/torture/workload.h"

namespace torture {

class Registered {
 public:
  Registered(const char* name, uint64_t (*run)(uint64_t seed));
};

// Compresses well, but not to nothing.
inline std::string text_of(uint64_t seed, size_t bytes) {
  Random random(seed);
  std::string text;
  while (text.size() < bytes) {
    text += "word ";
    text += std::to_string(random.below(50));
    text += random.below(7) == 0 ? ",\n" : " ";
  }
  text.resize(bytes);
  return text;
}

inline uint64_t sum_of(std::string_view text) {
  Sum sum;
  sum.add(text);
  return sum.value();
}

}  // namespace torture
