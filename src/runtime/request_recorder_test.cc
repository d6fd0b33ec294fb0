// SPDX-License-Identifier: Apache-2.0
#include "runtime/request_recorder.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "mechanism/clock/clock.h"

namespace {
std::atomic<bool> disk_hangs{false}, disk_waits{false};
}  // namespace

// In the place of the C library's.
extern "C" ssize_t write(int fd, const void* bytes, size_t size) {
  if (disk_hangs) {
    disk_waits = true;
    disk_waits.notify_all();
    disk_hangs.wait(true);
  }
  return ::syscall(SYS_write, fd, bytes, size);
}

namespace rubato {
namespace {

// The test is the workers.
class RequestRecorderTest : public ::testing::Test {
 protected:
  ~RequestRecorderTest() override { std::filesystem::remove(path_); }

  std::unique_ptr<RequestRecorder> recorder(uint64_t most_bytes = uint64_t{1} << 30) {
    return std::make_unique<RequestRecorder>(
        RequestRecordingOptions{path_, most_bytes}, feed_, 2u,
        [](uint32_t type) { return std::string(type == 0 ? "get" : "scan"); });
  }
  void put(int worker, Instant arrived, uint32_t type = 0, bool refused = false) {
    rings_[worker].put({arrived, Nanos(refused ? 0 : 700), Nanos(900), 5, type, refused});
  }
  // Of what the file holds now.
  std::shared_ptr<const RequestTrace> trace() const {
    std::ifstream file(path_, std::ios::binary);
    auto text = std::make_shared<std::ostringstream>();
    *text << file.rdbuf();
    const auto bytes = std::make_shared<std::string>(text->str());
    auto parsed = RequestTrace::parse(*bytes, bytes);
    EXPECT_TRUE(parsed.ok());
    return parsed.ok() ? *parsed : nullptr;
  }

  const std::string path_ = ::testing::TempDir() + "requests." + std::to_string(::getpid());
  RequestRing rings_[2];
  RequestFeed feed_{{&rings_[0], &rings_[1]}};
};

TEST_F(RequestRecorderTest, requests_of_all_workers_are_in_the_file_by_their_arrival) {
  const auto recording = recorder();
  put(0, now());  // before
  ASSERT_TRUE(recording->record(true).ok());
  EXPECT_TRUE(recording->recording());
  const Instant start = now();
  for (int i = 0; i < 3000; ++i) put(i % 2, start + Nanos(3000 - i), i % 10 == 0 ? 1 : 0);
  put(0, start + Nanos(1), 0, true);
  put(1, start - Nanos::seconds(1));  // arrived before
  ASSERT_TRUE(recording->finish().ok());
  const auto written = trace();
  ASSERT_NE(written, nullptr);
  EXPECT_EQ(written->requests(), 3001u);
  EXPECT_EQ(written->refused(), 1u);
  EXPECT_EQ(written->types()[1].served, 300u);
  EXPECT_EQ(written->last() - written->first(), Nanos(2999));
  EXPECT_EQ(recording->counts().recorded, 3001u);
  EXPECT_EQ(recording->counts().dropped, 0u);
}

TEST_F(RequestRecorderTest, each_start_writes_the_file_anew_and_leaves_the_one_before_to_readers) {
  const auto recording = recorder();
  ASSERT_TRUE(recording->record(true).ok());
  put(0, now());
  ASSERT_TRUE(recording->record(false).ok());
  std::ifstream before(path_, std::ios::binary);
  EXPECT_EQ(trace()->requests(), 1u);
  put(0, now());  // while nothing is recorded
  ASSERT_TRUE(recording->record(true).ok());
  for (int i = 0; i < 5; ++i) put(1, now());
  ASSERT_TRUE(recording->finish().ok());
  EXPECT_EQ(trace()->requests(), 5u);
  std::ostringstream text;
  text << before.rdbuf();
  const std::string bytes = text.str();
  EXPECT_EQ(RequestTrace::parse(bytes).value()->requests(), 1u);
  EXPECT_EQ(recording->counts().recorded, 6u);
}

TEST_F(RequestRecorderTest, a_full_ring_is_counted_in_the_file_too) {
  for (uint32_t i = 0; i < RequestRing::kCapacity + 9; ++i) put(0, now());
  const auto recording = recorder();
  EXPECT_EQ(recording->counts().dropped, 0u);  // of before
  ASSERT_TRUE(recording->record(true).ok());
  // More at once than the ring holds: some are dropped unless the thread is that quick.
  for (uint32_t i = 0; i < 20 * RequestRing::kCapacity; ++i) put(0, now());
  ASSERT_TRUE(recording->finish().ok());
  const auto written = trace();
  EXPECT_EQ(written->dropped(), recording->counts().dropped);
  EXPECT_EQ(written->requests() + written->dropped(), 20u * RequestRing::kCapacity);
}

TEST_F(RequestRecorderTest, takes_no_requests_from_another_reader) {
  RequestFeed::Reader other(feed_);
  std::vector<RequestRecord> seen;
  other.want(true);
  put(0, now());
  const auto recording = recorder();
  ASSERT_TRUE(recording->record(true).ok());
  for (int i = 0; i < 3000; ++i) put(i % 2, now());
  ASSERT_TRUE(recording->record(false).ok());
  EXPECT_TRUE(rings_[0].wanted());
  put(1, now());
  other.take(seen);
  EXPECT_EQ(seen.size(), 3002u);
  EXPECT_EQ(trace()->requests(), 3000u);
  other.want(false);
  EXPECT_FALSE(rings_[0].wanted());
  EXPECT_EQ(other.dropped() + recording->counts().dropped, 0u);
}

TEST_F(RequestRecorderTest, a_reader_that_does_not_come_loses_what_finds_no_room) {
  RequestFeed::Reader idle(feed_), busy(feed_);
  std::vector<RequestRecord> seen;
  idle.want(true);
  busy.want(true);
  uint64_t taken = 0;
  for (uint32_t i = 0; i < 3 * RequestRing::kCapacity; ++i) {
    put(0, now());
    if (i % 1000 == 0) busy.take(seen), taken += seen.size();
  }
  busy.take(seen);
  EXPECT_EQ(taken + seen.size(), 3u * RequestRing::kCapacity);
  EXPECT_EQ(busy.dropped(), 0u);
  idle.take(seen);
  EXPECT_EQ(seen.size(), 2u * RequestRing::kCapacity);  // as many as both rings hold
  EXPECT_EQ(idle.dropped(), RequestRing::kCapacity);
}

TEST_F(RequestRecorderTest, ends_when_the_file_has_the_size_that_it_may_have) {
  const auto recording = recorder(2000);
  ASSERT_TRUE(recording->record(true).ok());
  for (int i = 0; i < 5000; ++i) put(0, now());
  while (recording->recording()) std::this_thread::yield();
  ASSERT_TRUE(recording->finish().ok());
  EXPECT_LE(std::filesystem::file_size(path_), 2000u);
  EXPECT_EQ(recording->counts().dropped, 5000u);
}

TEST_F(RequestRecorderTest, counts_wait_for_no_disk) {
  const auto recording = recorder();
  disk_waits = false;
  disk_hangs = true;
  std::jthread starting([&] { static_cast<void>(recording->record(true)); });
  disk_waits.wait(false);
  EXPECT_EQ(recording->counts().recorded, 0u);
  disk_hangs = false;
  disk_hangs.notify_all();
}

TEST_F(RequestRecorderTest, a_file_that_cannot_be_written_is_refused_in_one_line) {
  RequestRecorder nowhere({"/nowhere/x", 1000}, feed_, 1,
                          [](uint32_t) { return std::string("get"); });
  EXPECT_EQ(nowhere.record(true).error(), "cannot write '/nowhere/x': No such file or directory");
  EXPECT_FALSE(nowhere.recording());
  RequestRecorder device({"/dev/full", 1000}, feed_, 1,
                         [](uint32_t) { return std::string("get"); });
  EXPECT_FALSE(device.record(true).ok());
}

}  // namespace
}  // namespace rubato
