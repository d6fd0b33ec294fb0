// SPDX-License-Identifier: Apache-2.0
#include "dpdk/load.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace rubato {
namespace {

class FindDpdkPlugin : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/rubato-plugin-XXXXXX";
    root_ = ::mkdtemp(name);
    for (const char* folder : {"/bin", "/lib", "/lib/rubato"}) {
      std::filesystem::create_directory(root_ + folder);
      ::chmod((root_ + folder).c_str(), 0755);
    }
    for (const std::string& file : {program(), plugin()}) {
      std::ofstream(file) << "x";
      ::chmod(file.c_str(), 0755);
    }
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  std::string program() const { return root_ + "/bin/rubato"; }
  std::string plugin() const { return root_ + "/lib/rubato/librubato-dpdk.so"; }
  Result<std::string> find() const { return find_dpdk_plugin(program(), "lib/rubato"); }
  std::string refusal(const std::string& path) const {
    return "dpdk: no plugin: others may write to " + path + ", or it is theirs (user " +
           std::to_string(::geteuid()) + ")";
  }

  std::string root_;
};

TEST_F(FindDpdkPlugin, is_beside_the_program) {
  EXPECT_EQ(find().value(), plugin());
  ::unlink(plugin().c_str());
  EXPECT_EQ(find().error(), "dpdk: no plugin (package rubato-dpdk): " + plugin() +
                                ": No such file or directory");
}

TEST_F(FindDpdkPlugin, is_refused_where_others_may_write) {
  for (const std::string& path : {plugin(), root_ + "/lib/rubato", root_ + "/lib", root_}) {
    ::chmod(path.c_str(), 0777);
    EXPECT_EQ(find().error(), refusal(path));
    ::chmod(path.c_str(), 0755);
  }
  ::chmod(root_.c_str(), 01777);  // as /tmp is
  EXPECT_TRUE(find().ok());
}

TEST_F(FindDpdkPlugin, is_refused_where_it_is_anothers) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  constexpr uid_t kOther = 65534;
  for (const std::string& path : {plugin(), root_ + "/lib/rubato", root_ + "/lib"}) {
    ASSERT_EQ(::chown(path.c_str(), kOther, kOther), 0);
    EXPECT_FALSE(find().ok()) << path;
    ASSERT_EQ(::chown(program().c_str(), kOther, kOther), 0);
    EXPECT_TRUE(find().ok()) << "of who can change the program anyway";
    ASSERT_EQ(::chown(program().c_str(), 0, 0), 0);
    ASSERT_EQ(::chown(path.c_str(), 0, 0), 0);
  }
}

}  // namespace
}  // namespace rubato
