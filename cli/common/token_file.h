// SPDX-License-Identifier: Apache-2.0
//
// Files that hold a token: a secret that two programs share. Main thread.
#pragma once

#include <string>

#include "base/result.h"

namespace rubato::cli {

inline constexpr size_t kLeastToken = 16;  // bytes

// Without the blanks around it. Fails with one line if there is no such file, or a token that is
// too short or of several lines.
Result<std::string> read_token(const std::string& path);

}  // namespace rubato::cli
