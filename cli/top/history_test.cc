// SPDX-License-Identifier: Apache-2.0
#include "cli/top/history.h"

#include <gtest/gtest.h>

#include "cli/top/testing/sample.h"

namespace rubato::cli {
namespace {

using testing::Sample;
using testing::state_text;

// `fast` requests of 10 us, `slow` ones of 1 ms, since the start.
Sample sample(double time_s, uint64_t fast, uint64_t slow) {
  return {.time_s = time_s,
          .types = {{"get", {{Nanos::micros(10), fast}, {Nanos::millis(1), slow}},
                     static_cast<double>(fast) * 2}}};
}

void expect_about(double value, double wanted) { EXPECT_NEAR(value, wanted, wanted * 0.01); }

TEST(LiveState, of_something_else_is_refused_in_one_line) {
  for (const std::string text : {"", "{", "[]", "{\"schema\":\"rubato.state/2\"}",
                                 "{\"schema\":\"rubato.state/1\"}"}) {
    const Result<LiveState> parsed = parse_live_state(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_TRUE(parsed.error().starts_with("no state of a server: ")) << parsed.error();
    EXPECT_EQ(parsed.error().find('\n'), std::string::npos);
  }
}

TEST(LiveState, with_a_key_too_many_is_taken_and_with_one_too_few_is_not) {
  auto json = nlohmann::ordered_json::parse(state_text(sample(1, 5, 0)));
  json["later"] = 1;
  EXPECT_TRUE(parse_live_state(json.dump()).ok());
  json.erase("workers");
  EXPECT_FALSE(parse_live_state(json.dump()).ok());
}

TEST(ServerHistory, percentiles_are_those_of_the_requests_of_the_interval) {
  ServerHistory history;
  ASSERT_TRUE(history.add(state_text(sample(0, 1'000'000, 0))).ok());
  ASSERT_TRUE(history.add(state_text(sample(59.5, 1'000'900, 100))).ok());
  ASSERT_TRUE(history.add(state_text(sample(60.5, 1'000'990, 110))).ok());
  const TopView view = history.view();
  ASSERT_EQ(view.types.size(), 1u);
  const TypeRow& get = view.types[0];
  EXPECT_DOUBLE_EQ(view.second_s, 1);
  EXPECT_DOUBLE_EQ(view.minute_s, 60.5);
  EXPECT_EQ(get.second.count, 100u);
  EXPECT_EQ(get.minute.count, 1'100u);
  EXPECT_DOUBLE_EQ(get.rate_per_s, 100);
  expect_about(get.second.p50_us, 10);
  expect_about(get.second.p99_us, 1000);
  expect_about(get.minute.p50_us, 10);
  expect_about(get.minute.p999_us, 1000);
  expect_about(get.wait_us, 1.8);
  EXPECT_EQ(view.all.minute.count, 1'100u);
  EXPECT_DOUBLE_EQ(view.busy, 0.8);
  EXPECT_DOUBLE_EQ(view.awake, 1.5);
}

TEST(ServerHistory, keeps_a_minute_and_the_state_before_it) {
  ServerHistory history;
  for (int second = 0; second <= 200; ++second) {
    const auto requests = static_cast<uint64_t>(second) * 10;
    ASSERT_TRUE(history.add(state_text(sample(second, requests, 0))).ok());
  }
  const TopView view = history.view();
  EXPECT_DOUBLE_EQ(view.second_s, 1);
  EXPECT_DOUBLE_EQ(view.minute_s, 60);
  EXPECT_EQ(view.types[0].minute.count, 600u);
}

TEST(ServerHistory, of_one_state_has_no_rates) {
  ServerHistory history;
  ASSERT_TRUE(history.add(state_text(sample(5, 100, 0))).ok());
  const TopView view = history.view();
  EXPECT_EQ(view.second_s, 0);
  EXPECT_EQ(view.types[0].rate_per_s, 0);
  EXPECT_EQ(view.types[0].second.count, 0u);
}

TEST(ServerHistory, begins_anew_with_another_process) {
  ServerHistory history;
  ASSERT_TRUE(history.add(state_text(sample(100, 500, 0))).ok());
  Sample other = sample(101, 3, 0);
  other.pid = 8;
  ASSERT_TRUE(history.add(state_text(other)).ok());
  EXPECT_EQ(history.view().second_s, 0);
  other.time_s = 102;
  other.types[0].latencies[0].second = 7;
  ASSERT_TRUE(history.add(state_text(other)).ok());
  EXPECT_EQ(history.view().types[0].second.count, 4u);
}

TEST(ServerHistory, begins_anew_when_a_process_with_the_same_number_follows) {
  ServerHistory history;
  ASSERT_TRUE(history.add(state_text(sample(100, 500, 0))).ok());
  ASSERT_TRUE(history.add(state_text(sample(101, 3, 0))).ok());
  EXPECT_EQ(history.view().second_s, 0);
  ASSERT_TRUE(history.add(state_text(sample(102, 7, 0))).ok());
  EXPECT_EQ(history.view().types[0].second.count, 4u);
  ASSERT_TRUE(history.add(state_text(Sample{.time_s = 103})).ok());
  EXPECT_EQ(history.view().second_s, 0);
}

TEST(ServerHistory, types_of_one_name_are_not_taken_for_each_other) {
  ServerHistory history;
  for (const uint64_t requests : {10u, 15u}) {
    Sample two = sample(static_cast<double>(requests), requests, 0);
    two.types.push_back({"get", {{Nanos::micros(10), requests * 100}}});
    ASSERT_TRUE(history.add(state_text(two)).ok());
  }
  EXPECT_EQ(history.view().types[0].second.count, 5u);
  EXPECT_EQ(history.view().types[1].second.count, 500u);
}

TEST(ServerHistory, types_and_pairs_that_are_new_count_from_nothing) {
  ServerHistory history;
  Sample first{.time_s = 0, .blocked = 2};
  ASSERT_TRUE(history.add(state_text(first)).ok());
  Sample second = sample(2, 40, 0);
  second.refused = 6;
  second.blocked = 12;
  ASSERT_TRUE(history.add(state_text(second)).ok());
  const TopView view = history.view();
  EXPECT_DOUBLE_EQ(view.types[0].rate_per_s, 20);
  ASSERT_EQ(view.blocked.size(), 1u);
  EXPECT_DOUBLE_EQ(view.blocked[0].rate_per_s, 5);
  EXPECT_DOUBLE_EQ(view.blocked[0].held_us, 500);
  ASSERT_EQ(view.refused.size(), 1u);
  EXPECT_EQ(view.refused[0].first, "delay short");
  EXPECT_DOUBLE_EQ(view.refused[0].second, 3);
}

TEST(ServerHistory, forgets_nothing_for_an_answer_that_is_none) {
  ServerHistory history;
  ASSERT_TRUE(history.add(state_text(sample(1, 10, 0))).ok());
  EXPECT_FALSE(history.add("no").ok());
  ASSERT_TRUE(history.add(state_text(sample(2, 30, 0))).ok());
  EXPECT_EQ(history.view().types[0].second.count, 20u);
}

}  // namespace
}  // namespace rubato::cli
