// SPDX-License-Identifier: Apache-2.0
#include "runtime/replaced_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace rubato {
namespace {

Error cannot(const std::string& path, const char* why) {
  return Error{"cannot write '" + path + "': " + why};
}

std::string beside(const std::string& path) { return path + ".new"; }

bool write_all(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(file, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    text.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

// The bytes are on the disk when this returns, since the name must not come before them. On failure
// it leaves no file behind.
Status write_new(const std::string& path, std::string_view text) {
  const std::string name = beside(path);
  const int file = ::open(name.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0) return cannot(path, std::strerror(errno));
  const bool good = write_all(file, text) && ::fsync(file) == 0;
  const int trouble = errno;
  ::close(file);
  if (good) return Done{};
  ::unlink(name.c_str());
  return cannot(path, std::strerror(trouble));
}

}  // namespace

Result<ReplacedFile> ReplacedFile::open(const std::string& path, size_t size_bytes) {
  struct stat there {};
  std::string real = path;
  if (::stat(path.c_str(), &there) == 0) {
    if (!S_ISREG(there.st_mode)) return cannot(path, "it is not a regular file");
    const std::unique_ptr<char, decltype(&std::free)> resolved(::realpath(path.c_str(), nullptr),
                                                               &std::free);
    if (resolved != nullptr) real = resolved.get();
  }
  if (Status tried = write_new(real, std::string(size_bytes, ' ')); !tried) {
    return Error{tried.error()};
  }
  ::unlink(beside(real).c_str());
  return ReplacedFile(real);
}

Status ReplacedFile::write(std::string_view text) {
  if (Status written = write_new(path_, text); !written) return written;
  if (::rename(beside(path_).c_str(), path_.c_str()) == 0) return Done{};
  const int trouble = errno;
  ::unlink(beside(path_).c_str());
  return cannot(path_, std::strerror(trouble));
}

}  // namespace rubato
