// SPDX-License-Identifier: Apache-2.0
#include "cli/trace/trace_summary.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "metrics/trace.h"

namespace rubato::cli {
namespace {

Instant at(int64_t us) { return Instant() + Nanos::micros(us); }

class TraceSummaryTest : public ::testing::Test {
 protected:
  TraceSummaryTest() { open({}); }

  void open(const Trace::Limits& limits) {
    auto opened = Trace::open(path_, limits, 2, {"short", "long"});
    EXPECT_TRUE(opened.ok());
    trace_ = std::move(*opened);
  }
  ~TraceSummaryTest() override { std::filesystem::remove(path_); }

  std::string text() {
    EXPECT_TRUE(trace_->finish().ok());
    std::ifstream file(path_);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }

  const std::string path_ = ::testing::TempDir() + "summary." + std::to_string(::getpid());
  std::unique_ptr<Trace> trace_;
};

TEST_F(TraceSummaryTest, waits_slices_cuts_queues_and_workers_are_those_of_the_events) {
  trace_->mark(0, "steal", at(0));
  trace_->depth("inbox", 1, at(0), 0);
  trace_->slice(0, {7, 1, at(10)}, at(12), at(22), Trace::End::kPreempted);
  trace_->depth("inbox", 1, at(20), 4);
  trace_->depth("inbox", 1, at(45), 0);
  trace_->slice(1, {7, 1, at(10)}, at(30), at(50), Trace::End::kFinished);
  trace_->slice(0, {8, 0, at(15)}, at(22), at(24), Trace::End::kFinished);
  trace_->span(0, "overhead", at(90), at(100));
  trace_->slice(1, {9, 0, at(60)}, at(60), at(61), Trace::End::kYielded);  // does not end
  trace_->drop(3);
  auto summary = summarize_trace(text());
  ASSERT_TRUE(summary.ok()) << summary.error();
  const auto& type = summary->types.at("long");
  EXPECT_EQ(type.requests(), 1u);
  EXPECT_EQ(type.slices, 2u);
  EXPECT_EQ(type.cuts, 1u);
  EXPECT_DOUBLE_EQ(type.wait.mean_ns(), 2'000);
  EXPECT_DOUBLE_EQ(type.waits.mean_ns(), 10'000);
  EXPECT_DOUBLE_EQ(type.service.mean_ns(), 30'000);
  EXPECT_EQ(summary->types.at("short").requests(), 1u);
  EXPECT_DOUBLE_EQ(summary->length_us, 100);
  EXPECT_DOUBLE_EQ(summary->queues.at("inbox 1").mean, 1);
  EXPECT_EQ(summary->queues.at("inbox 1").most, 4u);
  EXPECT_DOUBLE_EQ(summary->workers.at("worker 0").busy, 0.12);
  EXPECT_EQ(summary->workers.at("worker 1").slices, 2u);
  EXPECT_EQ(summary->left_out, 3u);
}

TEST_F(TraceSummaryTest, requests_that_came_before_the_trace_do_not_count) {
  open({.from = at(10)});
  trace_->slice(0, {1, 0, at(0)}, at(12), at(13), Trace::End::kFinished);
  trace_->slice(0, {2, 0, at(9)}, at(14), at(15), Trace::End::kFinished);
  trace_->slice(0, {3, 0, at(16)}, at(16), at(17), Trace::End::kFinished);
  EXPECT_EQ(summarize_trace(text())->types.at("short").requests(), 1u);
}

TEST_F(TraceSummaryTest, changes_of_a_queue_may_come_out_of_order) {
  trace_->depth("wait", 0, at(10), 2);
  trace_->depth("wait", 0, at(20), 0);
  trace_->depth("wait", 0, at(0), 1);
  EXPECT_DOUBLE_EQ(summarize_trace(text())->queues.at("wait 0").mean, 1.5);
}

TEST_F(TraceSummaryTest, what_is_no_whole_trace_is_refused_in_a_line) {
  trace_->slice(0, {1, 0, at(1)}, at(2), at(3), Trace::End::kFinished);
  const std::string whole = text();
  for (size_t size = 0; size + 2 < whole.size(); ++size) {
    const auto summary = summarize_trace(whole.substr(0, size));
    ASSERT_FALSE(summary.ok()) << size;
    EXPECT_EQ(summary.error().find('\n'), std::string::npos);
  }
  for (const char* other : {"[]", "{}", "7", R"({"traceEvents": []})",
                            R"({"traceEvents": [{}],
                                "otherData": {"from": 0, "events_dropped": 0}})",
                            R"({"traceEvents": [{"ph": "X", "ts": -1, "dur": 1}],
                                "otherData": {"from": 0, "events_dropped": 0}})"}) {
    EXPECT_FALSE(summarize_trace(other).ok()) << other;
  }
}

}  // namespace
}  // namespace rubato::cli
