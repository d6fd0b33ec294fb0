// SPDX-License-Identifier: Apache-2.0
//
// What the workloads give when nobody interrupts them, to hold against what they give otherwise;
// and the stores in a folder that goes with it. Made on a plain thread, read by any.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "base/check.h"
#include "tests/torture/workload.h"

namespace torture {

class Expected {
 public:
  static constexpr uint64_t kSeeds = 16;

  Expected() {
    std::string name = (std::filesystem::temp_directory_path() / "rubato-torture-XXXXXX").string();
    RUBATO_CHECK(mkdtemp(name.data()) != nullptr);
    folder_ = name;
    trouble_ = prepare_stores(folder_.string());
    if (!trouble_.empty()) return;
    for (const Workload& workload : workloads()) {
      for (uint64_t seed = 0; seed < kSeeds; ++seed) results_.push_back(workload.run(seed));
    }
  }
  ~Expected() {
    close_stores();
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  Expected(const Expected&) = delete;
  Expected& operator=(const Expected&) = delete;

  const std::string& trouble() const { return trouble_; }

  // How many pairs of a workload and a seed there are, and whether one gives what it should.
  uint64_t count() const { return results_.size(); }
  static const Workload& workload(uint64_t number) { return workloads()[number / kSeeds]; }
  bool holds(uint64_t number) const {
    return workload(number).run(number % kSeeds) == results_[number];
  }

 private:
  std::filesystem::path folder_;
  std::string trouble_;
  std::vector<uint64_t> results_;
};

// The number in an environment variable.
inline uint64_t asked(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

}  // namespace torture
