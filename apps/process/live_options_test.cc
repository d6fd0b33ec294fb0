// SPDX-License-Identifier: Apache-2.0
#include "process/live_options.h"

#include <gtest/gtest.h>

#include <barrier>
#include <functional>
#include <string>
#include <thread>

#include "runtime/testing/letter_app.h"

namespace rubato {
namespace {

std::string value_of(const LiveOptions& options, const std::string& name) {
  for (const auto& [key, value] : options.all()) {
    if (key == name) return value;
  }
  return "";
}

// CONFIG SET and the metrics port have an object each.
TEST(LiveOptions, setters_on_two_threads_lose_nothing) {
  testing::LetterServer server("fcfs");
  server.options.overload = Overload::kAqm;
  server.start();
  const LiveOptions first(*server.runtime, {}), second(*server.runtime, {});
  std::barrier both(2);
  constexpr int kRounds = 400;
  const auto set_all = [&both](const LiveOptions& options, const std::string& name,
                                const char* unit) {
    for (int round = 1; round <= kRounds; ++round) {
      both.arrive_and_wait();
      const Status set = options.set({{name, std::to_string(round)}});
      EXPECT_TRUE(set.ok()) << set.error();
      both.arrive_and_wait();
      EXPECT_EQ(value_of(options, name), std::to_string(round) + unit);
    }
  };
  std::thread other(set_all, std::cref(second), "target-delay", "ms");
  set_all(first, "drain-limit", "s");
  other.join();
}

TEST(LiveOptions, one_that_is_wrong_leaves_all_as_they_were) {
  testing::LetterServer server("fcfs");
  server.start();
  const LiveOptions options(*server.runtime, {});
  const LiveOptions::Lines before = options.all();
  const Status set = options.set({{"drain-limit", "7"}, {"target-delay", "much"}});
  ASSERT_FALSE(set.ok());
  EXPECT_TRUE(set.error().starts_with("target-delay: ")) << set.error();
  EXPECT_EQ(options.all(), before);
}

}  // namespace
}  // namespace rubato
