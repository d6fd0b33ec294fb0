// SPDX-License-Identifier: Apache-2.0
#include "metrics/trace.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

namespace rubato {
namespace {

using Json = nlohmann::json;

std::string file_named(const char* name) { return testing::TempDir() + "trace_test_" + name; }

std::unique_ptr<Trace> open_trace(const std::string& path, const Trace::Limits& limits = {}) {
  Result<std::unique_ptr<Trace>> trace = Trace::open(path, limits, 2, {"short", "a \"long\" one"});
  EXPECT_TRUE(trace.ok());
  return std::move(*trace);
}

Json read(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return Json::parse(text.str());
}

// The events of one phase: X slices, i marks, C depths, M names.
std::vector<Json> events(const Json& trace, const std::string& phase) {
  std::vector<Json> found;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] == phase) found.push_back(event);
  }
  return found;
}

TEST(Trace, every_kind_of_event_can_be_read_back) {
  const std::string path = file_named("kinds");
  auto trace = open_trace(path);
  trace->slice(1, {77, 1, Instant(250), 3}, Instant(1500), Instant(4501), Trace::End::kPreempted);
  trace->span(0, "poll", Instant(0), Instant(20));
  trace->mark(Trace::kTimerCore, "notify", Instant(2007));
  trace->depth("inbox", 1, Instant(5000), 3);
  EXPECT_EQ(trace->written(), 4u);
  ASSERT_TRUE(trace->finish().ok());

  const Json json = read(path);
  const std::vector<Json> slices = events(json, "X");
  ASSERT_EQ(slices.size(), 2u);
  EXPECT_EQ(slices[0]["name"], "a \"long\" one");
  EXPECT_EQ(slices[0]["tid"], 2);
  EXPECT_DOUBLE_EQ(slices[0]["ts"], 1.5);
  EXPECT_DOUBLE_EQ(slices[0]["dur"], 3.001);
  EXPECT_EQ(slices[0]["args"]["request"], 77);
  EXPECT_DOUBLE_EQ(slices[0]["args"]["arrived"], 0.25);
  EXPECT_EQ(slices[0]["args"]["end"], "preempted");
  EXPECT_EQ(slices[0]["args"]["avoided"], 3);
  EXPECT_EQ(slices[1]["name"], "poll");
  ASSERT_EQ(events(json, "i").size(), 1u);
  EXPECT_EQ(events(json, "i")[0]["tid"], 0);
  ASSERT_EQ(events(json, "C").size(), 1u);
  EXPECT_EQ(events(json, "C")[0]["name"], "inbox 1");
  EXPECT_EQ(events(json, "C")[0]["args"]["waiting"], 3);
}

TEST(Trace, rows_have_names_even_without_events) {
  const std::string path = file_named("rows");
  ASSERT_TRUE(open_trace(path)->finish().ok());
  std::vector<std::string> names;
  for (const Json& row : events(read(path), "M")) names.push_back(row["args"]["name"]);
  const std::vector<std::string> expected = {"workers", "timer core", "worker 0", "worker 1",
                                             "queues"};
  EXPECT_EQ(names, expected);
}

TEST(Trace, events_beyond_the_limit_are_counted_not_written) {
  const std::string path = file_named("limit");
  auto trace = open_trace(path, {.events = 10, .from = {}, .until = Instant::never()});
  for (int i = 0; i < 25; ++i) trace->mark(0, "steal", Instant(i));
  EXPECT_TRUE(trace->full());
  EXPECT_FALSE(trace->failed());
  EXPECT_EQ(trace->written(), 10u);
  EXPECT_EQ(trace->dropped(), 15u);
  ASSERT_TRUE(trace->finish().ok());
  EXPECT_EQ(trace->written(), 10u);
  const Json json = read(path);
  EXPECT_EQ(events(json, "i").size(), 10u);
  EXPECT_EQ(json["otherData"]["events_dropped"], 15);
}

TEST(Trace, the_window_keeps_what_touches_it) {
  const std::string path = file_named("window");
  auto trace = open_trace(path, {.events = 100, .from = Instant(1000), .until = Instant(2000)});
  const auto slice = [&](uint64_t request, int64_t start, int64_t end) {
    trace->slice(0, {request, 0, Instant(start)}, Instant(start), Instant(end),
                 Trace::End::kFinished);
  };
  slice(1, 0, 999);
  slice(2, 900, 1100);
  slice(3, 1999, 5000);
  slice(4, 2000, 2001);
  ASSERT_TRUE(trace->finish().ok());
  std::vector<int> requests;
  for (const Json& event : events(read(path), "X")) requests.push_back(event["args"]["request"]);
  EXPECT_EQ(requests, (std::vector<int>{2, 3}));
}

TEST(Trace, a_long_one_is_streamed_whole) {
  constexpr int64_t kMany = 100'000;
  const std::string path = file_named("long");
  auto trace = open_trace(path);
  for (int64_t i = 0; i < kMany; ++i) {
    trace->slice(0, {static_cast<uint64_t>(i), 0, Instant(i)}, Instant(i), Instant(i + 1),
                 Trace::End::kFinished);
  }
  ASSERT_TRUE(trace->finish().ok());
  EXPECT_EQ(events(read(path), "X").size(), static_cast<size_t>(kMany));
}

TEST(Trace, a_file_that_cannot_be_made_is_one_line) {
  const auto trace = Trace::open("/nowhere/trace.json", {}, 1, {});
  ASSERT_FALSE(trace.ok());
  EXPECT_EQ(trace.error(), "cannot write '/nowhere/trace.json': No such file or directory");
}

TEST(Trace, a_full_disk_ends_it_and_is_one_line) {
  auto trace = open_trace("/dev/full");
  for (int i = 0; i < 100'000 && !trace->failed(); ++i) trace->mark(0, "steal", Instant(i));
  EXPECT_TRUE(trace->failed());
  EXPECT_TRUE(trace->full());
  const Status done = trace->finish();
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error(), "cannot write '/dev/full': No space left on device");
}

TEST(Trace, events_that_a_full_disk_did_not_take_are_not_written) {
  const auto trace = open_trace("/dev/full");
  for (int i = 0; i < 10; ++i) trace->mark(0, "preempt", Instant(i));
  EXPECT_EQ(trace->written(), 10u);
  EXPECT_EQ(trace->finish().error(), "cannot write '/dev/full': No space left on device");
  EXPECT_EQ(trace->written(), 0u);
  EXPECT_EQ(trace->dropped(), 10u);
}

}  // namespace
}  // namespace rubato
