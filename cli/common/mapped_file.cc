// SPDX-License-Identifier: Apache-2.0
#include "cli/common/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace rubato::cli {

Result<std::shared_ptr<const MappedFile>> MappedFile::open(const std::string& path) {
  const auto failed = [&path](int error) {
    return Error{"cannot read '" + path + "': " + std::strerror(error)};
  };
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return failed(errno);
  struct stat info {};
  const bool is_file = ::fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
  const size_t size = is_file ? static_cast<size_t>(info.st_size) : 0;
  void* const data = size > 0 ? ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0) : nullptr;
  const int error = errno;
  ::close(fd);
  if (!is_file) return Error{"cannot read '" + path + "': it is no file"};
  if (data == MAP_FAILED) return failed(error);
  return std::shared_ptr<const MappedFile>(new MappedFile(static_cast<const char*>(data), size));
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<char*>(data_), size_);
}

}  // namespace rubato::cli
