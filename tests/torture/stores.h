// SPDX-License-Identifier: Apache-2.0
//
// The stores of the workloads, in a folder that goes with it. Outlives what runs them.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/check.h"
#include "tests/torture/workload.h"

namespace torture {

class Stores {
 public:
  Stores() {
    std::string name = (std::filesystem::temp_directory_path() / "rubato-torture-XXXXXX").string();
    RUBATO_CHECK(mkdtemp(name.data()) != nullptr);
    folder_ = name;
    const std::string trouble = prepare_stores(folder_.string());
    if (!trouble.empty()) rubato::check_failed(__FILE__, __LINE__, trouble.c_str());
  }
  ~Stores() {
    close_stores();
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  Stores(const Stores&) = delete;
  Stores& operator=(const Stores&) = delete;

 private:
  std::filesystem::path folder_;
};

}  // namespace torture
