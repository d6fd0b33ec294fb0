// SPDX-License-Identifier: Apache-2.0
#include "cli/common/output_file.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

namespace rubato::cli {

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

std::string write_problem(const std::string& path) {
  if (path.empty() || path == "-") return "";
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  struct stat there {};
  int error = 0;
  if (::stat(path.c_str(), &there) != 0) {
    const char* const in = folder.empty() ? "." : folder.c_str();
    error = errno != ENOENT || ::access(in, W_OK | X_OK) != 0 ? errno : 0;
  } else if (S_ISDIR(there.st_mode)) {
    error = EISDIR;
  } else if (::access(path.c_str(), W_OK) != 0) {
    error = errno;
  }
  return error != 0 ? std::strerror(error) : "";
}

}  // namespace rubato::cli
