// SPDX-License-Identifier: Apache-2.0
//
// ReplacedFile: a file that is written again and again, so that a reader always finds one whole
// version: each version is written beside the file (FILE.new) and replaces it when complete. One
// thread at a time.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace rubato {

class ReplacedFile {
 public:
  // Fails with one line if the path is a folder, a device or the like, or if no file of
  // `size_bytes` can be written there. Leaves a file that is there as it is.
  static Result<ReplacedFile> open(const std::string& path, size_t size_bytes);

  // Fails with one line; the previous version then remains.
  Status write(std::string_view text);

  const std::string& path() const { return path_; }

 private:
  explicit ReplacedFile(std::string path) : path_(std::move(path)) {}

  std::string path_;  // without symbolic links, so that none is replaced
};

}  // namespace rubato
