// SPDX-License-Identifier: Apache-2.0
#include "runtime/trace_recorder.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "mechanism/clock/clock.h"

namespace {

// Files are opened when it lets them.
struct HungDisk {
  std::atomic<bool> hangs{false}, waits{false};
  void go_on() {
    hangs = false;
    hangs.notify_all();
  }
};

HungDisk& hung_disk() {
  static HungDisk disk;
  return disk;
}

}  // namespace

// In the place of the C library's.
extern "C" std::FILE* fopen(const char* path, const char* mode) {
  if (hung_disk().hangs) {
    hung_disk().waits = true;
    hung_disk().waits.notify_all();
    hung_disk().hangs.wait(true);
  }
  static const auto next = reinterpret_cast<decltype(&std::fopen)>(::dlsym(RTLD_NEXT, "fopen"));
  return next(path, mode);
}

namespace rubato {
namespace {

using Json = nlohmann::json;

// The test is the workers.
class TraceRecorderTest : public ::testing::Test {
 protected:
  ~TraceRecorderTest() override { std::filesystem::remove(path_); }

  std::unique_ptr<TraceRecorder> recorder(uint64_t events = 100'000) {
    return std::make_unique<TraceRecorder>(
        TraceOptions{path_, events}, std::vector{&rings_[0], &rings_[1]}, 2u,
        [](uint32_t type) { return std::string(type == 0 ? "get" : "scan"); });
  }
  void slice(int worker, const void* request, Instant started, Trace::End how) {
    const Instant at = now();
    rings_[worker].put({.start = at, .end = at + Nanos(50), .arrived = started - Nanos(5),
                        .started = started, .request = request, .type = 1, .how = how});
  }
  Json trace() const {
    std::ifstream file(path_);
    return Json::parse(file);
  }
  // The numbers of the requests of all slices, in the order of the file.
  std::vector<uint64_t> numbers() const {
    std::vector<uint64_t> numbers;
    const Json whole = trace();
    for (const Json& event : whole["traceEvents"]) {
      if (event["ph"] == "X") numbers.push_back(event["args"]["request"].get<uint64_t>());
    }
    return numbers;
  }

  const std::string path_ = ::testing::TempDir() + "live." + std::to_string(::getpid());
  TraceRing rings_[2];
};

TEST_F(TraceRecorderTest, the_layout_is_that_of_a_simulated_trace) {
  const auto recording = recorder();
  ASSERT_TRUE(recording->record(true).ok());
  EXPECT_EQ(rings_[0].wanted(), 1u);
  slice(1, &rings_, now(), Trace::End::kPreempted);
  rings_[0].put({.start = now(), .name = "inbox", .type = 1, .depth = 3,
                 .what = TraceRecord::What::kDepth});
  rings_[0].put({.start = now(), .name = "steal", .what = TraceRecord::What::kMark});
  ASSERT_TRUE(recording->finish().ok());
  EXPECT_EQ(rings_[0].wanted(), 0u);
  const std::string simulated = path_ + ".sim";
  auto opened = Trace::open(simulated, {}, 2, {"get", "scan"});
  ASSERT_TRUE((*opened)->finish().ok());
  std::ifstream file(simulated);
  const Json rows = Json::parse(file)["traceEvents"];
  std::filesystem::remove(simulated);
  const Json events = trace()["traceEvents"];
  ASSERT_EQ(events.size(), rows.size() + 3);
  for (size_t i = 0; i < rows.size(); ++i) EXPECT_EQ(events[i], rows[i]);
  std::map<std::string, Json> by_phase;
  for (const Json& event : events) by_phase[event["ph"]] = event;
  EXPECT_EQ(by_phase["X"]["name"], "scan");
  EXPECT_EQ(by_phase["X"]["args"]["end"], "preempted");
  EXPECT_EQ(by_phase["C"]["name"], "inbox 1");
  EXPECT_EQ(by_phase["C"]["args"]["waiting"], 3);
  EXPECT_EQ(by_phase["i"]["name"], "steal");
}

TEST_F(TraceRecorderTest, slices_of_a_request_have_its_number_wherever_they_ran) {
  const auto recording = recorder();
  ASSERT_TRUE(recording->record(true).ok());
  const Instant first = now(), second = first + Nanos(1);
  slice(0, &path_, first, Trace::End::kPreempted);
  slice(1, &path_, first, Trace::End::kFinished);
  slice(1, &path_, second, Trace::End::kFinished);  // its memory again
  ASSERT_TRUE(recording->finish().ok());
  EXPECT_EQ(numbers(), (std::vector<uint64_t>{0, 0, 1}));
}

TEST_F(TraceRecorderTest, what_several_workers_see_of_a_queue_is_written_when_it_has_changed) {
  const auto recording = recorder();
  ASSERT_TRUE(recording->record(true).ok());
  const Instant start = now();
  const auto see = [&](int worker, int64_t at, uint32_t depth, uint32_t index = 0) {
    rings_[worker].put({.start = start + Nanos(at), .name = "global", .type = index,
                        .depth = depth, .what = TraceRecord::What::kDepth});
  };
  see(0, 1, 0, 1);
  for (const auto& [at, depth] : {std::pair(2, 0), {30, 2}, {40, 3}, {50, 1}}) {
    for (int worker : {0, 1}) see(worker, at + worker, static_cast<uint32_t>(depth));
  }
  ASSERT_TRUE(recording->finish().ok());
  std::map<std::string, std::map<double, int>> seen;  // by time
  const Json whole = trace();
  for (const Json& event : whole["traceEvents"]) {
    if (event["ph"] != "C") continue;
    seen[event["name"]][event["ts"].get<double>()] = event["args"]["waiting"].get<int>();
  }
  EXPECT_EQ(seen["global 1"].size(), 1u);
  std::vector<int> changes;
  for (const auto& [at, depth] : seen["global 0"]) {
    if (changes.empty() || changes.back() != depth) changes.push_back(depth);
  }
  EXPECT_EQ(changes, (std::vector<int>{0, 2, 3, 1}));
  // Four, but for what came just when the rings were emptied one after the other.
  EXPECT_LT(seen["global 0"].size(), 8u);
}

TEST_F(TraceRecorderTest, a_depth_that_comes_after_a_later_one_was_written_is_left_out) {
  const auto recording = recorder();
  ASSERT_TRUE(recording->record(true).ok());
  const Instant start = now();
  const auto see = [&](int worker, int64_t at, uint32_t depth) {
    rings_[worker].put({.start = start + Nanos(at), .name = "global", .depth = depth,
                        .what = TraceRecord::What::kDepth});
  };
  see(0, 20, 4);
  while (recording->counts().written < 1) std::this_thread::yield();
  see(1, 10, 3);
  see(1, 30, 5);
  ASSERT_TRUE(recording->finish().ok());
  std::vector<int> written;
  const Json whole = trace();
  for (const Json& event : whole["traceEvents"]) {
    if (event["ph"] == "C") written.push_back(event["args"]["waiting"].get<int>());
  }
  EXPECT_EQ(written, (std::vector<int>{4, 5}));
  EXPECT_EQ(recording->counts().dropped, 1u);
}

TEST_F(TraceRecorderTest, each_start_writes_the_file_anew) {
  const auto recording = recorder();
  ASSERT_TRUE(recording->record(true).ok());
  slice(0, &path_, now(), Trace::End::kFinished);
  ASSERT_TRUE(recording->record(false).ok());
  EXPECT_EQ(numbers().size(), 1u);
  slice(0, &path_, now(), Trace::End::kFinished);  // of neither
  ASSERT_TRUE(recording->record(true).ok());
  EXPECT_EQ(rings_[1].wanted(), 2u);
  slice(0, &path_, now(), Trace::End::kFinished);
  slice(1, &rings_, now(), Trace::End::kFinished);
  ASSERT_TRUE(recording->finish().ok());
  EXPECT_EQ(numbers(), (std::vector<uint64_t>{0, 1}));
  EXPECT_EQ(recording->counts().written, 3u);
}

TEST_F(TraceRecorderTest, a_full_ring_is_counted_in_the_file) {
  const auto recording = recorder(1u << 30);
  ASSERT_TRUE(recording->record(true).ok());
  const Instant at = now();
  uint64_t put = 0;
  for (; rings_[0].dropped() == 0; ++put) {
    rings_[0].put({.start = at, .end = at, .arrived = at, .started = at, .request = &path_,
                   .how = Trace::End::kFinished});
  }
  ASSERT_TRUE(recording->finish().ok());
  const auto counts = recording->counts();
  EXPECT_GT(counts.dropped, 0u);
  EXPECT_EQ(counts.written + counts.dropped, put);
  EXPECT_EQ(trace()["otherData"]["events_dropped"], counts.dropped);
  EXPECT_EQ(numbers().size(), counts.written);
}

TEST_F(TraceRecorderTest, ends_at_its_events) {
  const auto recording = recorder(10);
  ASSERT_TRUE(recording->record(true).ok());
  for (int i = 0; i < 25; ++i) slice(i % 2, &path_, now(), Trace::End::kFinished);
  while (recording->recording()) std::this_thread::yield();
  EXPECT_EQ(rings_[0].wanted(), 0u);
  EXPECT_EQ(numbers().size(), 10u);
  ASSERT_TRUE(recording->finish().ok());
  EXPECT_EQ(recording->counts().written, 10u);
}

TEST_F(TraceRecorderTest, tells_at_the_end_that_one_that_ended_by_itself_is_not_whole) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  const auto recording = recorder(10);
  ASSERT_TRUE(recording->record(true).ok());
  const rlimit little{16, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &little), 0);
  for (int i = 0; i < 10; ++i) slice(0, &path_, now(), Trace::End::kFinished);
  while (recording->recording()) std::this_thread::yield();
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  ::signal(SIGXFSZ, handler);
  EXPECT_TRUE(recording->record(false).ok());  // it is over
  EXPECT_FALSE(recording->end_whole().ok());
}

TEST_F(TraceRecorderTest, counts_wait_for_no_disk) {
  const auto recording = recorder();
  hung_disk().waits = false;
  hung_disk().hangs = true;
  std::jthread starting([&] { static_cast<void>(recording->record(true)); });
  hung_disk().waits.wait(false);
  EXPECT_EQ(recording->counts().written, 0u);
  hung_disk().go_on();
}

TEST_F(TraceRecorderTest, five_files_that_are_set_aside_are_kept) {
  const auto named = [&](int number) { return path_ + "." + std::to_string(number); };
  for (int i = 1; i <= kMostAside + 2; ++i) {
    std::ofstream(path_) << i;
    ASSERT_TRUE(set_file_aside(path_).ok());
    EXPECT_FALSE(std::filesystem::exists(path_));
  }
  for (int number = 1; number <= kMostAside; ++number) {
    int text = 0;
    std::ifstream(named(number)) >> text;
    EXPECT_EQ(text, kMostAside + 3 - number);
    std::filesystem::remove(named(number));
  }
  EXPECT_FALSE(std::filesystem::exists(named(kMostAside + 1)));
}

TEST_F(TraceRecorderTest, a_file_is_for_its_owner_and_the_group_to_read) {
  std::ofstream(path_) << "of before";
  std::filesystem::permissions(path_, std::filesystem::perms(0666));
  const auto recording = recorder();
  ASSERT_TRUE(recording->record(true).ok());
  EXPECT_EQ(std::filesystem::status(path_).permissions(), std::filesystem::perms(0640));
  ASSERT_TRUE(recording->finish().ok());
}

TEST_F(TraceRecorderTest, a_file_that_cannot_be_written_is_refused_in_one_line) {
  const auto name = [](uint32_t) { return std::string("get"); };
  TraceRecorder nowhere({"/nowhere/x", 1000}, {&rings_[0]}, 1, name);
  EXPECT_EQ(nowhere.record(true).error(), "cannot write '/nowhere/x': No such file or directory");
  EXPECT_FALSE(nowhere.recording());
  EXPECT_EQ(rings_[0].wanted(), 0u);
  TraceRecorder device({"/dev/full", 1000}, {&rings_[0]}, 1, name);
  EXPECT_FALSE(device.record(true).ok());
}

}  // namespace
}  // namespace rubato
