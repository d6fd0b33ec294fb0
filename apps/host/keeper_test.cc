// SPDX-License-Identifier: Apache-2.0
//
// The keeper with real processes. It must be forked by a process of one thread, as the tests are.
#include "host/keeper.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

namespace rubato {
namespace {

template <class F>
bool comes_true(F&& condition) {
  for (int i = 0; i < 10'000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return false;
}

bool is_over(const Keeper& keeper) { return keeper.board().state == KeeperBoard::kOver; }

class KeeperTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() /
              ("keeper_" + std::to_string(::getpid()) + "_" +
               ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string file(const char* name) const { return (folder_ / name).string(); }
  // What somebody has written there, 0 = nothing yet.
  int number_in(const char* name) const {
    int number = 0;
    std::ifstream(file(name)) >> number;
    return number;
  }
  static bool lives(int process) { return ::kill(process, 0) == 0; }

  std::filesystem::path folder_;
};

TEST_F(KeeperTest, nothing_runs_before_it_is_told_to_begin) {
  auto keeper = Keeper::fork({"echo 1 > " + file("ran"), false, std::nullopt});
  ASSERT_TRUE(keeper.ok());
  EXPECT_EQ(keeper->board().state, KeeperBoard::kNotStarted);
  keeper->begin();
  ASSERT_TRUE(comes_true([&] { return is_over(*keeper); }));
  EXPECT_EQ(number_in("ran"), 1);
  EXPECT_EQ(keeper->board().starts, 1u);
  EXPECT_EQ(keeper->board().ends, 1u);
}

TEST_F(KeeperTest, the_command_runs_under_sched_idle) {
  auto keeper = Keeper::fork(
      {"cut -d')' -f2 /proc/self/stat | cut -d' ' -f40 > " + file("policy"), false, std::nullopt});
  ASSERT_TRUE(keeper.ok());
  keeper->begin();
  ASSERT_TRUE(comes_true([&] { return is_over(*keeper); }));
  EXPECT_EQ(number_in("policy"), SCHED_IDLE);
}

TEST_F(KeeperTest, how_it_ended_is_told) {
  auto keeper = Keeper::fork({"exit 3", false, std::nullopt});
  ASSERT_TRUE(keeper.ok());
  keeper->begin();
  ASSERT_TRUE(comes_true([&] { return is_over(*keeper); }));
  EXPECT_EQ(WEXITSTATUS(keeper->board().last_end.load()), 3);
}

TEST_F(KeeperTest, a_command_that_ends_at_once_is_started_again_ever_later) {
  auto keeper = Keeper::fork({"exit 0", true, std::nullopt});
  ASSERT_TRUE(keeper.ok());
  keeper->begin();
  ASSERT_TRUE(comes_true([&] { return keeper->board().starts >= 2; }));
  ASSERT_TRUE(comes_true([&] { return keeper->board().ends >= 2; }));
  EXPECT_GE(keeper->board().pause_ms, 1000);
}

TEST_F(KeeperTest, a_command_that_the_shell_cannot_find_is_not_started_again) {
  auto keeper = Keeper::fork({"exit 127", true, std::nullopt});
  ASSERT_TRUE(keeper.ok());
  keeper->begin();
  ASSERT_TRUE(comes_true([&] { return is_over(*keeper); }));
  EXPECT_EQ(keeper->board().starts, 1u);
}

TEST_F(KeeperTest, cpu_time_of_all_that_it_started_counts) {
  auto keeper = Keeper::fork(
      {"(timeout 0.3 sh -c 'while :; do :; done') ; exit 0", false, std::nullopt});
  ASSERT_TRUE(keeper.ok());
  keeper->begin();
  ASSERT_TRUE(comes_true([&] { return is_over(*keeper); }));
  EXPECT_GT(keeper->board().cpu_ns, 0);
}

// A shell that starts another session, whose parent then ends: nobody but a subreaper finds it.
constexpr char kEscapes[] = "(setsid sh -c 'echo $$ > FILE; exec sleep 1000' &) ; sleep 1000";

std::string escaping(const std::string& file) {
  std::string command = kEscapes;
  return command.replace(command.find("FILE"), 4, file);
}

TEST_F(KeeperTest, its_end_is_the_end_of_all_that_the_command_started) {
  int process = 0;
  {
    auto keeper = Keeper::fork({escaping(file("pid")), false, std::nullopt});
    ASSERT_TRUE(keeper.ok());
    keeper->begin();
    ASSERT_TRUE(comes_true([&] { return (process = number_in("pid")) != 0; }));
    EXPECT_TRUE(lives(process));
  }
  EXPECT_FALSE(lives(process));
}

TEST_F(KeeperTest, so_is_the_death_of_its_server) {
  const pid_t server = ::fork();
  if (server == 0) {
    auto keeper = Keeper::fork({escaping(file("pid")), false, std::nullopt});
    if (keeper.ok()) keeper->begin();
    for (;;) ::pause();
  }
  int process = 0;
  ASSERT_TRUE(comes_true([&] { return (process = number_in("pid")) != 0; }));
  ASSERT_EQ(::kill(server, SIGKILL), 0);
  ASSERT_EQ(::waitpid(server, nullptr, 0), server);
  EXPECT_TRUE(comes_true([&] { return !lives(process); }));
}

}  // namespace
}  // namespace rubato
