// SPDX-License-Identifier: Apache-2.0
//
// The whole of a file, for commands that read one at once.
#pragma once

#include <optional>
#include <string>

namespace rubato::cli {

// Empty optional: the file cannot be opened. Any thread.
std::optional<std::string> file_text(const std::string& path);

}  // namespace rubato::cli
