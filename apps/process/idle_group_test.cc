// SPDX-License-Identifier: Apache-2.0
#include "process/idle_group.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace rubato {
namespace {

namespace fs = std::filesystem;

TEST(IdleGroup, no_controller_is_no_place) { EXPECT_FALSE(IdleGroup::make({}, "x").ok()); }

// Folders that look like groups of version 2 take the place of the kernel's.
class IdleGroupTree : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::temp_directory_path() / ("idle_group_" + std::to_string(::getpid()));
    fs::create_directories(root_ / "service");
  }
  void TearDown() override { fs::remove_all(root_); }

  void write(const std::string& file, const std::string& text) {
    std::ofstream(root_ / file) << text;
  }
  CpuGroup place(const std::string& folder) {
    return {(root_ / folder).lexically_normal().string(), root_.string(), true};
  }

  fs::path root_;
};

TEST_F(IdleGroupTree, a_group_whose_parent_shares_no_cpu_cannot_have_one_beside_it) {
  write("service/cgroup.controllers", "cpuset cpu io\n");
  write("service/cgroup.subtree_control", "\n");
  write("cgroup.subtree_control", "io memory\n");
  const auto made = IdleGroup::make(place("service"), "new");
  ASSERT_FALSE(made.ok());
  EXPECT_NE(made.error().find("service has no CPU controller to share out"), std::string::npos);
}

TEST_F(IdleGroupTree, a_folder_without_the_kernels_files_is_taken_back) {
  write("service/cgroup.controllers", "cpu\n");
  write("cgroup.subtree_control", "cpu io\n");
  EXPECT_FALSE(IdleGroup::make(place("service"), "new").ok());
  EXPECT_FALSE(fs::exists(root_ / "new"));
}

}  // namespace
}  // namespace rubato
