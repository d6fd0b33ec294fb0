// SPDX-License-Identifier: Apache-2.0
#include "mechanism/cpu/cgroup.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
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

TEST(CpuGroup, of_another_controller_is_where_that_one_is_mounted) {
  constexpr const char* kMounts =
      "33 31 0:29 / /cg/cpu rw - cgroup cgroup rw,cpu\n"
      "34 31 0:31 / /cg/cpuset rw - cgroup cgroup rw,cpuset\n";
  EXPECT_EQ(find_cpu_group(kMounts, "5:cpuset:/a\n2:cpu:/b\n", "cpuset").folder, "/cg/cpuset/a");
}

TEST(CpuGroup, finds_the_controller_of_version_1_before_the_empty_version_2) {
  const auto place = find_cpu_group(kVersionOne, "5:cpuset:/a\n2:cpu,cpuacct:/b/c\n0::/d\n");
  EXPECT_EQ(place.folder, "/sys/fs/cgroup/cpu,cpuacct/b/c");
  EXPECT_EQ(place.mount, "/sys/fs/cgroup/cpu,cpuacct");
  EXPECT_FALSE(place.unified);
}

TEST(CpuGroup, finds_the_group_of_version_2) {
  const auto place = find_cpu_group(kVersionTwo, "0::/system.slice/kv.service\n");
  EXPECT_EQ(place.folder, "/sys/fs/cgroup/system.slice/kv.service");
  EXPECT_EQ(place.mount, "/sys/fs/cgroup");
  EXPECT_TRUE(place.unified);
}

TEST(CpuGroup, a_container_sees_a_part_of_the_tree) {
  const auto place = find_cpu_group("35 25 0:30 /box /sys/fs/cgroup rw - cgroup2 none rw\n",
                                     "0::/box/inner\n");
  EXPECT_EQ(place.folder, "/sys/fs/cgroup/inner");
  const auto other = find_cpu_group("35 25 0:30 /box /sys/fs/cgroup rw - cgroup2 none rw\n",
                                    "0::/boxes\n");
  EXPECT_EQ(other.folder, "/sys/fs/cgroup/boxes");
}

TEST(CpuGroup, no_controller_is_no_place) {
  EXPECT_EQ(find_cpu_group("30 25 0:26 / /tmp rw - tmpfs tmpfs rw\n", "0::/\n").folder, "");
  EXPECT_EQ(find_cpu_group("", "").folder, "");
  EXPECT_EQ(find_cpu_group("nonsense\n1 2 - \n - cgroup2\n", "::\n0\n:").folder, "");
}

// Folders that look like control groups take the place of the kernel's.
class CpuQuota : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::temp_directory_path() / ("cpu_quota_" + std::to_string(::getpid()));
    fs::create_directories(root_ / "pod/box");
  }
  void TearDown() override { fs::remove_all(root_); }

  void write(const std::string& file, const std::string& text) {
    std::ofstream(root_ / file) << text;
  }
  double quota(bool unified) {
    return cpu_quota({(root_ / "pod/box").string(), root_.string(), unified});
  }

  fs::path root_;
};

TEST_F(CpuQuota, of_version_2_is_the_least_on_the_way_to_the_root) {
  EXPECT_TRUE(std::isinf(quota(true)));
  write("pod/box/cpu.max", "max 100000\n");
  EXPECT_TRUE(std::isinf(quota(true)));
  write("pod/cpu.max", "20000 100000\n");
  EXPECT_DOUBLE_EQ(quota(true), 0.2);
  write("pod/box/cpu.max", "300000 100000\n");
  EXPECT_DOUBLE_EQ(quota(true), 0.2);
  write("cpu.max", "1000 100000\n");
  EXPECT_DOUBLE_EQ(quota(true), 0.01);
}

TEST_F(CpuQuota, of_version_1_is_in_two_files) {
  write("pod/box/cpu.cfs_period_us", "100000\n");
  write("pod/box/cpu.cfs_quota_us", "-1\n");
  EXPECT_TRUE(std::isinf(quota(false)));
  write("pod/box/cpu.cfs_quota_us", "150000\n");
  EXPECT_DOUBLE_EQ(quota(false), 1.5);
}

TEST(UsableCpus, are_the_allowed_ones_or_the_whole_ones_of_the_quota) {
  EXPECT_EQ(usable_cpus(8, INFINITY), 8u);
  EXPECT_EQ(usable_cpus(8, 2.5), 2u);
  EXPECT_EQ(usable_cpus(2, 16), 2u);
  EXPECT_EQ(usable_cpus(8, 0.2), 1u);
  EXPECT_EQ(usable_cpus(0, 0.2), 1u);
  EXPECT_GE(usable_cpus(), 1u);
}

}  // namespace
}  // namespace rubato
