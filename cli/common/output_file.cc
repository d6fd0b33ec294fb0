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
namespace {

Error cannot_write(const std::string& path, int error) {
  return Error{fmt::format("cannot write '{}': {}", path, std::strerror(error))};
}

}  // namespace

Status write_text(const std::string& path, const std::string& text) {
  const bool to_stdout = path == "-";
  errno = 0;
  std::FILE* file = to_stdout ? stdout : std::fopen(path.c_str(), "w");
  bool good = file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (good) good = std::fflush(file) == 0;
  const int error = errno;
  if (file != nullptr && !to_stdout) std::fclose(file);
  if (good) return Done{};
  return cannot_write(to_stdout ? "stdout" : path, error != 0 ? error : EIO);
}

Status may_write(const std::string& path) {
  if (path.empty() || path == "-") return Done{};
  struct stat there {};
  if (::stat(path.c_str(), &there) == 0) {
    if (S_ISDIR(there.st_mode)) return cannot_write(path, EISDIR);
    return ::access(path.c_str(), W_OK) == 0 ? Status(Done{}) : cannot_write(path, errno);
  }
  if (errno != ENOENT) return cannot_write(path, errno);
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  const char* const in = folder.empty() ? "." : folder.c_str();
  return ::access(in, W_OK | X_OK) == 0 ? Status(Done{}) : cannot_write(path, errno);
}

}  // namespace rubato::cli
