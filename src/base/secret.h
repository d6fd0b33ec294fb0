// SPDX-License-Identifier: Apache-2.0
//
// Comparing what somebody claims to know with a secret. Pure; any thread.
#pragma once

#include <algorithm>
#include <string_view>

namespace rubato {

// Does not tell by its time how much of the secret is right.
inline bool is_secret(std::string_view claimed, std::string_view secret) {
  bool same = claimed.size() == secret.size();
  for (size_t i = 0; i < std::min(claimed.size(), secret.size()); ++i) {
    same &= claimed[i] == secret[i];
  }
  return same;
}

}  // namespace rubato
