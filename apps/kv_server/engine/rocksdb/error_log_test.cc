// SPDX-License-Identifier: Apache-2.0
#include "kv_server/engine/rocksdb/error_log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <vector>

namespace rubato::kv {
namespace {

using Lines = std::vector<std::string>;

struct Said {
  Lines lines;
  ErrorLog log{[this](const std::string& line) { lines.push_back(line); }};
};

TEST(ErrorLog, a_line_is_one_line) {
  Said said;
  said.log.say_at(1'000'000, "disk\nfull");
  EXPECT_EQ(said.lines, Lines{"disk full"});
}

TEST(ErrorLog, the_same_line_is_said_once_a_minute) {
  Said said;
  for (int64_t ms = 0; ms < 60'000; ms += 10) said.log.say_at(1'000'000 + ms, "full");
  EXPECT_EQ(said.lines, Lines{"full"});
  said.log.say_at(1'060'000, "full");
  ASSERT_EQ(said.lines.size(), 2U);
  EXPECT_EQ(said.lines[1], "full (5999 lines before it left out)");
}

TEST(ErrorLog, a_line_that_nobody_takes_is_left_out) {
  int fds[2];
  ASSERT_EQ(pipe2(fds, O_NONBLOCK), 0);
  const std::string much(4096, '.');
  while (write(fds[1], much.data(), much.size()) > 0) {
  }
  ASSERT_EQ(fcntl(fds[1], F_SETFL, 0), 0);
  const int before = dup(STDERR_FILENO);
  ASSERT_EQ(dup2(fds[1], STDERR_FILENO), STDERR_FILENO);
  ErrorLog log;
  log.say_at(1'000'000, "disk full");
  dup2(before, STDERR_FILENO);
  for (const int fd : {before, fds[0], fds[1]}) close(fd);
}

TEST(ErrorLog, of_many_different_lines_few_are_said_and_the_others_counted) {
  Said said;
  for (int i = 0; i < 1000; ++i) said.log.say_at(1'000'000, "error " + std::to_string(i));
  EXPECT_EQ(said.lines.size(), 5U);
  said.log.say_at(1'009'999, "too soon");
  said.log.say_at(1'010'000, "again");
  ASSERT_EQ(said.lines.size(), 6U);
  EXPECT_EQ(said.lines[5], "again (996 lines before it left out)");
}

}  // namespace
}  // namespace rubato::kv
