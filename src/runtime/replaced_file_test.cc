// SPDX-License-Identifier: Apache-2.0
#include "runtime/replaced_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace rubato {
namespace {

namespace fs = std::filesystem;

class ReplacedFiles : public ::testing::Test {
 protected:
  ReplacedFiles() {
    std::string name = (fs::temp_directory_path() / "rubato-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
    path_ = (folder_ / "profile").string();
  }
  ~ReplacedFiles() override { fs::remove_all(folder_); }

  static std::string read(const fs::path& path) {
    std::ifstream file(path);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }
  size_t files() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), {}));
  }

  fs::path folder_;
  std::string path_;
};

TEST_F(ReplacedFiles, is_written_again_and_again) {
  auto file = ReplacedFile::open(path_, 100);
  ASSERT_TRUE(file.ok()) << file.error();
  EXPECT_EQ(files(), 0u);
  ASSERT_TRUE(file->write("one\n").ok());
  ASSERT_TRUE(file->write("two\n").ok());
  EXPECT_EQ(read(path_), "two\n");
  EXPECT_EQ(files(), 1u);
}

TEST_F(ReplacedFiles, opening_leaves_an_old_file_alone) {
  std::ofstream(path_) << "old";
  ASSERT_TRUE(ReplacedFile::open(path_, 100).ok());
  EXPECT_EQ(read(path_), "old");
}

TEST_F(ReplacedFiles, a_link_stays_a_link) {
  std::ofstream(folder_ / "real") << "old";
  fs::create_symlink("real", path_);
  auto file = ReplacedFile::open(path_, 100);
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE(file->write("new").ok());
  EXPECT_TRUE(fs::is_symlink(path_));
  EXPECT_EQ(read(folder_ / "real"), "new");
}

TEST_F(ReplacedFiles, what_is_no_file_is_refused_and_stays) {
  for (const std::string& path : {std::string("/dev/full"), folder_.string()}) {
    const auto file = ReplacedFile::open(path, 100);
    ASSERT_FALSE(file.ok());
    EXPECT_EQ(file.error(), "cannot write '" + path + "': it is not a regular file");
  }
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
  const auto nowhere = ReplacedFile::open((folder_ / "no" / "where").string(), 100);
  ASSERT_FALSE(nowhere.ok());
  EXPECT_NE(nowhere.error().find("No such file or directory"), std::string::npos);
}

TEST_F(ReplacedFiles, a_write_that_fails_says_why_and_a_later_one_can_succeed) {
  auto file = ReplacedFile::open(path_, 100);
  fs::remove_all(folder_);
  const Status failed = file->write("x");
  ASSERT_FALSE(failed.ok());
  EXPECT_NE(failed.error().find("No such file or directory"), std::string::npos);
  fs::create_directory(folder_);
  EXPECT_TRUE(file->write("x").ok());
}

}  // namespace
}  // namespace rubato
