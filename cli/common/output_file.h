// SPDX-License-Identifier: Apache-2.0
//
// Files that commands write for others to read. Main thread.
#pragma once

#include <string>

#include "base/result.h"

namespace rubato::cli {

// Replaces the file by `text`. Fails with one line that names it, also when the disk is full.
Status write_file(const std::string& path, const std::string& text);

// The same, where "-" is stdout; the error line also gives the reason.
Status write_text(const std::string& path, const std::string& text);

}  // namespace rubato::cli
