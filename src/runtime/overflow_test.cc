// SPDX-License-Identifier: Apache-2.0
//
// How deep a request may go, and what is said of one that goes deeper.
#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <regex>
#include <string>

#include "mechanism/clock/clock.h"
#include "mechanism/fiber/sanitizer.h"
#include "mechanism/preempt/mechanism.h"
#include "runtime/testing/letter_app.h"

namespace rubato {
namespace {

using testing::LetterServer;

class Overflow : public ::testing::TestWithParam<PreemptMechanism> {
 protected:
  void SetUp() override {
    if (const Status has = available(GetParam()); !has.ok()) GTEST_SKIP() << has.error();
  }
};

INSTANTIATE_TEST_SUITE_P(By, Overflow,
                         ::testing::Values(PreemptMechanism::kCheckpoint, PreemptMechanism::kTimer),
                         [](const auto& with) { return to_string(with.param); });

// The standard library's search takes some 700 bytes of stack per character.
TEST_P(Overflow, a_search_in_20_kilobytes_fits_the_default_stack) {
  LetterServer server("ps");
  server.options.preempt = GetParam();
  server.app.on('R') = [](Request&) {
    const std::string text = std::string(20'000, 'a') + 'c';
    EXPECT_TRUE(std::regex_search(text, std::regex("(a|b)*c")));
  };
  server.start();
  EXPECT_EQ(server.call(server.connect(), "R\n"), "R\n");
  EXPECT_TRUE(server.stop());
}

[[gnu::noinline]] uint64_t recurse(uint64_t depth) {
  volatile char frame[512] = {};
  frame[depth % sizeof(frame)] = 1;
  return depth == 0 ? 0 : recurse(depth - 1) + static_cast<uint64_t>(frame[depth % sizeof(frame)]);
}

// Of two requests that were in service together one fiber is left over.
TEST_P(Overflow, a_fiber_without_a_request_gives_back_what_its_stack_has_held) {
  if (sanitizer::kPresent) GTEST_SKIP() << "a sanitizer's frames lie elsewhere in part";
  constexpr uint64_t kDepth = 4000;
  constexpr size_t kDeepBytes = kDepth * 512;
  LetterServer server("ps");
  server.options.preempt = GetParam();
  std::atomic<int> here{0};
  const auto meet = [&] {
    here.fetch_add(1);
    testing::checkpoints_until([&] { return here.load() % 2 == 0; });
  };
  server.app.on('D') = [&](Request&) {
    static_cast<void>(recurse(kDepth));
    meet();
  };
  server.app.on('M') = [&](Request&) { meet(); };
  server.start();
  const uint64_t flows[] = {server.connect(), server.connect()};
  const auto two = [&](const std::string& line) {
    for (const uint64_t flow : flows) server.submit(flow, line);
    for (const uint64_t flow : flows) EXPECT_EQ(server.receive(flow, 2), line);
  };
  two("D\n");
  const size_t before = server.runtime->stack_resident_bytes(false);
  EXPECT_GE(before, 2 * kDeepBytes);
  EXPECT_GE(server.runtime->stack_resident_bytes(true), kDeepBytes);
  two("M\n");  // the worker keeps the fiber, and switches
  EXPECT_LE(server.runtime->stack_resident_bytes(false), before - kDeepBytes);
  EXPECT_TRUE(server.stop());
}

void serve_endless_recursion(PreemptMechanism mechanism) {
  LetterServer server("ps");
  server.options.preempt = mechanism;
  server.options.stack_bytes = size_t{256} << 10;
  server.app.on('R') = [](Request&) { static_cast<void>(recurse(UINT64_MAX)); };
  server.start();
  static_cast<void>(server.call(server.connect(), "R\n"));
}

TEST_P(Overflow, beyond_its_stack_a_request_ends_the_server_with_a_line_that_names_it) {
  if (sanitizer::kPresent) GTEST_SKIP() << "a sanitizer reports it itself";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(serve_endless_recursion(GetParam()), ::testing::KilledBySignal(SIGSEGV),
              "rubato: a request of type 82 of connection [0-9]+ has overflowed its stack of 256 "
              "KiB; the option `stack` sets it");
}

// Runs on the worker's thread, whose stack is not the option's.
TEST_P(Overflow, a_handler_of_a_foreign_runtime_has_the_stack_of_its_thread) {
  LetterServer server("ps");
  server.options.preempt = GetParam();
  server.options.stack_bytes = size_t{64} << 10;
  server.options.foreign_runtime = true;
  server.options.policy_settings = {{"quantum", "100us"}};
  std::atomic<bool> second{false};
  server.app.on('R') = [&](Request& request) {
    EXPECT_GT(recurse(1000), 0u);
    while (!second) {
    }
    const Instant end = now() + Nanos::millis(5);
    while (now() < end) checkpoint();
    EXPECT_EQ(request.preemptions, 0u);
  };
  server.start();
  const uint64_t first = server.connect();
  server.submit(first, "R\n");
  server.submit(server.connect(), "S\n");
  second = true;
  EXPECT_EQ(server.receive(first, 2), "R\n");
  EXPECT_TRUE(server.stop());
  EXPECT_EQ(server.runtime->stats().preemptions, 0u);
}

}  // namespace
}  // namespace rubato
