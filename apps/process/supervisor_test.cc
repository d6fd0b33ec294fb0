// SPDX-License-Identifier: Apache-2.0
//
// The supervisor with real processes. It must be forked by a process of one thread, as the tests
// are.
#include "process/supervisor.h"

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

bool is_over(const Supervisor& supervisor) {
  return supervisor.status().state == SupervisorStatus::kOver;
}

class SupervisorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() /
              ("supervisor_" + std::to_string(::getpid()) + "_" +
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

TEST_F(SupervisorTest, nothing_runs_before_it_is_told_to_begin) {
  auto supervisor = Supervisor::fork({"echo 1 > " + file("ran"), false, std::nullopt});
  ASSERT_TRUE(supervisor.ok());
  EXPECT_EQ(supervisor->status().state, SupervisorStatus::kNotStarted);
  supervisor->begin();
  ASSERT_TRUE(comes_true([&] { return is_over(*supervisor); }));
  EXPECT_EQ(number_in("ran"), 1);
  EXPECT_EQ(supervisor->status().starts, 1u);
  EXPECT_EQ(supervisor->status().ends, 1u);
}

TEST_F(SupervisorTest, the_command_runs_under_sched_idle) {
  auto supervisor = Supervisor::fork(
      {"cut -d')' -f2 /proc/self/stat | cut -d' ' -f40 > " + file("policy"), false, std::nullopt});
  ASSERT_TRUE(supervisor.ok());
  supervisor->begin();
  ASSERT_TRUE(comes_true([&] { return is_over(*supervisor); }));
  EXPECT_EQ(number_in("policy"), SCHED_IDLE);
}

TEST_F(SupervisorTest, how_it_ended_is_told) {
  auto supervisor = Supervisor::fork({"exit 3", false, std::nullopt});
  ASSERT_TRUE(supervisor.ok());
  supervisor->begin();
  ASSERT_TRUE(comes_true([&] { return is_over(*supervisor); }));
  EXPECT_EQ(WEXITSTATUS(supervisor->status().last_end.load()), 3);
}

TEST_F(SupervisorTest, a_command_that_ends_at_once_is_started_again_ever_later) {
  auto supervisor = Supervisor::fork({"exit 0", true, std::nullopt});
  ASSERT_TRUE(supervisor.ok());
  supervisor->begin();
  ASSERT_TRUE(comes_true([&] { return supervisor->status().starts >= 2; }));
  ASSERT_TRUE(comes_true([&] { return supervisor->status().ends >= 2; }));
  EXPECT_GE(supervisor->status().pause_ms, 1000);
}

TEST_F(SupervisorTest, a_command_that_the_shell_cannot_find_is_not_started_again) {
  auto supervisor = Supervisor::fork({"exit 127", true, std::nullopt});
  ASSERT_TRUE(supervisor.ok());
  supervisor->begin();
  ASSERT_TRUE(comes_true([&] { return is_over(*supervisor); }));
  EXPECT_EQ(supervisor->status().starts, 1u);
}

TEST_F(SupervisorTest, cpu_time_of_all_that_it_started_counts) {
  auto supervisor = Supervisor::fork(
      {"(timeout 0.3 sh -c 'while :; do :; done') ; exit 0", false, std::nullopt});
  ASSERT_TRUE(supervisor.ok());
  supervisor->begin();
  ASSERT_TRUE(comes_true([&] { return is_over(*supervisor); }));
  EXPECT_GT(supervisor->status().cpu_ns, 0);
}

// A shell that starts another session, whose parent then ends: only a subreaper finds it.
constexpr char kEscapes[] = "(setsid sh -c 'echo $$ > FILE; exec sleep 1000' &) ; sleep 1000";

std::string escaping(const std::string& file) {
  std::string command = kEscapes;
  return command.replace(command.find("FILE"), 4, file);
}

TEST_F(SupervisorTest, its_end_is_the_end_of_all_that_the_command_started) {
  int process = 0;
  {
    auto supervisor = Supervisor::fork({escaping(file("pid")), false, std::nullopt});
    ASSERT_TRUE(supervisor.ok());
    supervisor->begin();
    ASSERT_TRUE(comes_true([&] { return (process = number_in("pid")) != 0; }));
    EXPECT_TRUE(lives(process));
  }
  EXPECT_FALSE(lives(process));
}

TEST_F(SupervisorTest, so_is_the_death_of_its_server) {
  const pid_t server = ::fork();
  if (server == 0) {
    auto supervisor = Supervisor::fork({escaping(file("pid")), false, std::nullopt});
    if (supervisor.ok()) supervisor->begin();
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
