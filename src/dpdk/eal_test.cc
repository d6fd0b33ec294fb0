// SPDX-License-Identifier: Apache-2.0
#include "dpdk/eal.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include "dpdk/testing/environment.h"

namespace rubato::dpdk {
namespace {

// The error of start_eal in a process of its own, as it starts only once; empty = none.
std::string error_with(const std::string& arguments) {
  std::array<int, 2> ends{};
  EXPECT_EQ(::pipe(ends.data()), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const Status started = start_eal(arguments);
    const std::string text = started.ok() ? "" : started.error();
    const ssize_t written = ::write(ends[1], text.data(), text.size());
    ::_exit(written == static_cast<ssize_t>(text.size()) ? 0 : 1);
  }
  ::close(ends[1]);
  std::array<char, 1024> text{};
  const ssize_t size = ::read(ends[0], text.data(), text.size());
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << arguments;
  return {text.data(), static_cast<size_t>(size < 0 ? 0 : size)};
}

TEST(StartEal, names_the_word_that_it_does_not_know) {
  if (!testing::dpdk_starts()) GTEST_SKIP() << "rte_eal_init fails here";
  const std::string environment = testing::kEnvironment;
  EXPECT_EQ(error_with(environment), "");
  EXPECT_EQ(error_with("first " + environment), "dpdk: the EAL knows no argument 'first'");
  EXPECT_EQ(error_with(environment + " last"), "dpdk: the EAL knows no argument 'last'");
  EXPECT_EQ(error_with(environment + " -- last"), "dpdk: the EAL knows no argument 'last'");
}

}  // namespace
}  // namespace rubato::dpdk
