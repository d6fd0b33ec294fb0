// SPDX-License-Identifier: Apache-2.0
#include "runtime/stop_signals.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>

#include "runtime/testing/letter_app.h"

namespace rubato {
namespace {

constexpr int kTouched[] = {SIGTERM, SIGINT, SIGALRM, SIGHUP, SIGUSR1, SIGUSR2, SIGPIPE};

int handled = 0;
void handle(int) { ++handled; }

sighandler_t handler_of(int signal) {
  struct sigaction now {};
  sigaction(signal, nullptr, &now);
  return now.sa_handler;
}

class StopSignalsTest : public ::testing::Test {
 protected:
  // Whatever the tests were started with: nohup ignores a signal.
  StopSignalsTest() : server_("fcfs") {
    for (const int signal : kTouched) ::signal(signal, SIG_DFL);
    server_.start();
  }

  void install() {
    auto installed = StopSignals::install(*server_.runtime);
    ASSERT_TRUE(installed.ok()) << installed.error();
    signals_ = std::move(*installed);
  }

  // The text that a signal raised here writes to stderr.
  static std::string said_at(int signal) {
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(::raise(signal), 0);
    return ::testing::internal::GetCapturedStderr();
  }

  testing::LetterServer server_;
  std::unique_ptr<StopSignals> signals_;
};

TEST_F(StopSignalsTest, a_signal_that_nobody_handles_is_told_and_does_no_harm) {
  install();
  const std::pair<int, std::string> cases[] = {
      {SIGHUP, " warning signal: SIGHUP ignored: nothing is reloaded; SIGTERM stops the server\n"},
      {SIGUSR1, " warning signal: SIGUSR1 ignored; SIGTERM stops the server\n"},
      {SIGUSR2, " warning signal: SIGUSR2 ignored; SIGTERM stops the server\n"}};
  for (const auto& [signal, line] : cases) {
    const std::string said = said_at(signal);
    EXPECT_TRUE(said.ends_with(line)) << said;
  }
  EXPECT_EQ(said_at(SIGPIPE), "");
  EXPECT_TRUE(server_.runtime->serving());
}

TEST_F(StopSignalsTest, the_interrupted_code_finds_its_errno) {
  install();
  errno = ERANGE;
  ::raise(SIGHUP);
  EXPECT_EQ(errno, ERANGE);
}

TEST_F(StopSignalsTest, a_program_keeps_its_own_handlers_and_what_it_ignores) {
  ::signal(SIGUSR1, handle);
  ::signal(SIGHUP, SIG_IGN);
  install();
  handled = 0;
  EXPECT_EQ(said_at(SIGUSR1), "");
  EXPECT_EQ(handled, 1);
  EXPECT_EQ(said_at(SIGHUP), "");
  signals_.reset();
  EXPECT_EQ(handler_of(SIGUSR1), &handle);
  EXPECT_EQ(handler_of(SIGHUP), SIG_IGN);
}

TEST_F(StopSignalsTest, at_its_end_every_signal_does_again_what_it_did) {
  install();
  for (const int signal : kTouched) EXPECT_NE(handler_of(signal), SIG_DFL) << signal;
  signals_.reset();
  for (const int signal : kTouched) EXPECT_EQ(handler_of(signal), SIG_DFL) << signal;
}

}  // namespace
}  // namespace rubato
