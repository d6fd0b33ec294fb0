// SPDX-License-Identifier: Apache-2.0
#include "cli/output_file.h"

#include <fstream>

namespace rubato::cli {

Status write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  file.close();
  if (!file) return Error{"cannot write '" + path + "'"};
  return Done{};
}

}  // namespace rubato::cli
