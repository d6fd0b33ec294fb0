// SPDX-License-Identifier: Apache-2.0
#include "host/idle_group.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace rubato {
namespace {

namespace fs = std::filesystem;

constexpr char kVersionOne[] =
    "30 25 0:26 / /sys/fs/cgroup rw,nosuid - tmpfs tmpfs rw,mode=755\n"
    "31 30 0:27 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
    "32 30 0:28 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 master:2 - cgroup cgroup rw,cpu,cpuacct\n"
    "33 30 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
constexpr char kVersionTwo[] = "35 25 0:30 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n";

TEST(IdleGroup, finds_the_controller_of_version_1_before_the_empty_version_2) {
  const auto place = IdleGroup::find(kVersionOne, "5:cpuset:/a\n2:cpu,cpuacct:/b/c\n0::/d\n");
  EXPECT_EQ(place.folder, "/sys/fs/cgroup/cpu,cpuacct/b/c");
  EXPECT_EQ(place.mount, "/sys/fs/cgroup/cpu,cpuacct");
  EXPECT_FALSE(place.unified);
}

TEST(IdleGroup, finds_the_group_of_version_2) {
  const auto place = IdleGroup::find(kVersionTwo, "0::/system.slice/kv.service\n");
  EXPECT_EQ(place.folder, "/sys/fs/cgroup/system.slice/kv.service");
  EXPECT_EQ(place.mount, "/sys/fs/cgroup");
  EXPECT_TRUE(place.unified);
}

TEST(IdleGroup, a_container_sees_a_part_of_the_tree) {
  const auto place = IdleGroup::find("35 25 0:30 /box /sys/fs/cgroup rw - cgroup2 none rw\n",
                                     "0::/box/inner\n");
  EXPECT_EQ(place.folder, "/sys/fs/cgroup/inner");
}

TEST(IdleGroup, no_controller_is_no_place) {
  EXPECT_EQ(IdleGroup::find("30 25 0:26 / /tmp rw - tmpfs tmpfs rw\n", "0::/\n").folder, "");
  EXPECT_EQ(IdleGroup::find("", "").folder, "");
  EXPECT_EQ(IdleGroup::find("nonsense\n1 2 - \n - cgroup2\n", "::\n0\n:").folder, "");
  EXPECT_FALSE(IdleGroup::make({}, "x").ok());
}

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
  IdleGroup::Place place(const std::string& folder) {
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
