// SPDX-License-Identifier: Apache-2.0
//
// MappedFile: the bytes of a file, in memory as far as they are looked at. Of a file that grows it
// has what was there when it was opened; one must not be cut short meanwhile (who records into a
// file never does). Any thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace rubato::cli {

class MappedFile {
 public:
  // Fails with one line if the file cannot be read or is none.
  static Result<std::shared_ptr<const MappedFile>> open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::string_view bytes() const { return {data_, size_}; }

 private:
  MappedFile(const char* data, size_t size) : data_(data), size_(size) {}

  const char* data_;  // null = the file is empty
  size_t size_;
};

}  // namespace rubato::cli
