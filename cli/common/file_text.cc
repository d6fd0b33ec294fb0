// SPDX-License-Identifier: Apache-2.0
#include "cli/common/file_text.h"

#include <fstream>
#include <sstream>

namespace rubato::cli {

std::optional<std::string> file_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) return std::nullopt;
  return text.str();
}

}  // namespace rubato::cli
