// SPDX-License-Identifier: Apache-2.0
//
// What libc++ for WASI declares but does not contain (cmake/wasm/libcxx.h): streams of files, and
// the kind of a file.
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

template class std::basic_filebuf<char>;
template class std::basic_ifstream<char>;
template class std::basic_ofstream<char>;

_LIBCPP_BEGIN_NAMESPACE_FILESYSTEM

file_status __status(const path& name, error_code* problem) {
  struct stat info {};
  if (::stat(name.c_str(), &info) != 0) {
    if (problem != nullptr) *problem = error_code(errno, generic_category());
    return file_status(errno == ENOENT ? file_type::not_found : file_type::none);
  }
  if (problem != nullptr) problem->clear();
  if (S_ISREG(info.st_mode)) return file_status(file_type::regular);
  return file_status(S_ISDIR(info.st_mode) ? file_type::directory : file_type::unknown);
}

_LIBCPP_END_NAMESPACE_FILESYSTEM
