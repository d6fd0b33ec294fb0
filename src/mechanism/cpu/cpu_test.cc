// SPDX-License-Identifier: Apache-2.0
//
// These tests run on any machine: none expects a certain processor or number of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <thread>

#include "mechanism/cpu/features.h"
#include "mechanism/cpu/pin.h"
#include "mechanism/cpu/pause.h"
#include "mechanism/cpu/topology.h"

namespace rubato {
namespace {

namespace fs = std::filesystem;
using List = std::vector<uint32_t>;

TEST(CpuList, is_parsed_as_the_kernel_writes_it) {
  EXPECT_EQ(parse_cpu_list("0-3,8,10-11\n"), (List{0, 1, 2, 3, 8, 10, 11}));
  EXPECT_EQ(parse_cpu_list("5"), (List{5}));
  EXPECT_EQ(parse_cpu_list("\n"), List{});
  EXPECT_EQ(parse_cpu_list("3,1-3"), (List{1, 2, 3}));
}

TEST(CpuList, that_is_malformed_or_huge_gives_nothing) {
  for (const char* text : {"a", "1-", "-1", "3-1", "1,,2", "1,", "0-9999999",
                           "4294967296", "1 2"}) {
    EXPECT_FALSE(parse_cpu_list(text).has_value()) << text;
  }
}

class FakeSysfs : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(testing::TempDir()) /
            ("rubato_sysfs_" + std::string(testing::UnitTest::GetInstance()
                                               ->current_test_info()->name()));
    fs::remove_all(root_);
  }
  void TearDown() override { fs::remove_all(root_); }

  void put(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text << '\n';
  }

  void put_cpu(uint32_t id, const std::string& core, const std::string& siblings) {
    const std::string folder = "devices/system/cpu/cpu" + std::to_string(id) + "/";
    put(folder + "topology/core_id", core);
    put(folder + "topology/physical_package_id", "1");
    put(folder + "topology/thread_siblings_list", siblings);
    put(folder + "node1/distance", "10");
  }

  fs::path root_;
};

TEST_F(FakeSysfs, describes_cores_nodes_and_isolation) {
  put("devices/system/cpu/online", "0-3");
  put("devices/system/cpu/isolated", "2-3");
  for (uint32_t id = 0; id < 4; ++id) put_cpu(id, id % 2 == 0 ? "0" : "1", id % 2 ? "1,3" : "0,2");
  put("devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave");
  put("kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "64");
  put("kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "60");
  put("kernel/mm/transparent_hugepage/enabled", "always [madvise] never");
  const List allowed = {0, 1, 2};
  const Topology topology = read_topology(root_, allowed);
  ASSERT_EQ(topology.cpus.size(), 3u);
  EXPECT_EQ(topology.cpus[1].core, 1u);
  EXPECT_EQ(topology.cpus[1].package, 1u);
  EXPECT_EQ(topology.cpus[1].numa_node, 1u);
  EXPECT_EQ(topology.cpus[2].siblings, (List{0, 2}));
  EXPECT_TRUE(topology.cpus[2].isolated);
  EXPECT_FALSE(topology.cpus[0].isolated);
  EXPECT_EQ(topology.cpus[0].governor, "powersave");
  EXPECT_EQ(topology.one_per_core(), (List{0, 1}));
  ASSERT_EQ(topology.hugepages.size(), 1u);
  EXPECT_EQ(topology.hugepages[0].page_bytes, 2048u * 1024);
  EXPECT_EQ(topology.hugepages[0].available, 60u);
  EXPECT_EQ(topology.transparent_hugepages, "madvise");
}

TEST_F(FakeSysfs, that_is_empty_leaves_the_allowed_cpus_and_defaults) {
  const List allowed = {4, 7};
  const Topology topology = read_topology(root_, allowed);
  ASSERT_EQ(topology.cpus.size(), 2u);
  EXPECT_EQ(topology.cpus[1].id, 7u);
  EXPECT_EQ(topology.cpus[1].siblings, List{7});
  EXPECT_EQ(topology.one_per_core(), (List{4, 7}));
  EXPECT_TRUE(topology.hugepages.empty());
}

TEST(Topology, of_this_machine_has_the_cpus_we_may_use) {
  const Topology topology = read_topology();
  const List allowed = allowed_cpus();
  ASSERT_FALSE(topology.cpus.empty());
  for (const Cpu& cpu : topology.cpus) {
    EXPECT_TRUE(std::find(allowed.begin(), allowed.end(), cpu.id) != allowed.end());
  }
  EXPECT_FALSE(topology.one_per_core().empty());
}

TEST(Pin, keeps_a_thread_on_its_cpu_and_can_be_undone) {
  std::thread([] {
    const List before = allowed_cpus();
    for (uint32_t cpu : before) {
      ASSERT_TRUE(pin_this_thread(cpu).ok());
      EXPECT_EQ(current_cpu(), cpu);
      EXPECT_EQ(allowed_cpus(), List{cpu});
    }
    ASSERT_TRUE(pin_this_thread_to_any(before).ok());
    EXPECT_EQ(allowed_cpus(), before);
  }).join();
}

TEST(Pin, to_a_cpu_that_does_not_exist_says_which) {
  const Status status = pin_this_thread(8000);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().find("8000"), std::string::npos);
  EXPECT_FALSE(pin_this_thread(100'000).ok());
}

TEST(Features, are_the_same_at_every_call) {
  EXPECT_EQ(&cpu_features(), &cpu_features());
  cpu_pause();
}

}  // namespace
}  // namespace rubato
