// SPDX-License-Identifier: Apache-2.0
#include "cli/common/output_file.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>

namespace rubato::cli {

Status write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  file.close();
  if (!file) return Error{"cannot write '" + path + "'"};
  return Done{};
}

Status write_text(const std::string& path, const std::string& text) {
  const bool to_stdout = path == "-";
  errno = 0;
  std::FILE* file = to_stdout ? stdout : std::fopen(path.c_str(), "w");
  bool good = file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (good) good = std::fflush(file) == 0;
  const int error = errno;
  if (file != nullptr && !to_stdout) std::fclose(file);
  if (good) return Done{};
  return Error{fmt::format("cannot write '{}': {}", to_stdout ? "stdout" : path,
                           std::strerror(error != 0 ? error : EIO))};
}

}  // namespace rubato::cli
