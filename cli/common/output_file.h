// SPDX-License-Identifier: Apache-2.0
//
// Files that commands write for others to read. Main thread.
#pragma once

#include <string>

#include "base/result.h"

namespace rubato::cli {

// Replaces the file by `text`; "-" is stdout. Fails with one line that names it and gives the
// reason, also when the disk is full.
Status write_text(const std::string& path, const std::string& text);

// Fails as write_text would, as far as can be told without a write.
Status may_write(const std::string& path);

}  // namespace rubato::cli
