// SPDX-License-Identifier: Apache-2.0
//
// Classify: the source that says which requests are long. A plain value.
#pragma once

#include <cstdint>

namespace rubato {

enum class Classify : uint8_t {
  kFeedback,  // the application alone, at any time (Synergy 5.1.2)
  kAge,       // and the request's attained service: what outlives a quantum is long
  kLearned,   // and what requests of its type and size took before
  kDeclared,  // the application alone, when the request arrives
};

// Does a request become long by its age?
constexpr bool by_age(Classify classify) {
  return classify == Classify::kAge || classify == Classify::kLearned;
}

}  // namespace rubato
