// SPDX-License-Identifier: Apache-2.0
//
// What executors and servers of the library record for the simulator, by their public headers; read
// as the simulator reads it.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "workload/request_trace.h"
#include "workload/traffic_profile.h"

#include <rubato/rubato.hpp>

namespace {

using namespace std::chrono_literals;
using rubato::Executor;
using rubato::ExecutorOptions;
using rubato::Options;
using rubato::RequestTrace;
using rubato::Server;
using rubato::TrafficProfile;
using std::chrono::nanoseconds;

constexpr uint32_t kShort = 0, kLong = 1;

std::string text_of(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::shared_ptr<const RequestTrace> trace_of(const std::string& file) {
  const auto bytes = std::make_shared<const std::string>(text_of(file));
  const auto trace = RequestTrace::parse(*bytes, bytes);
  EXPECT_TRUE(trace.ok()) << (trace.ok() ? "" : trace.error());
  return trace.ok() ? trace.value() : nullptr;
}

TrafficProfile profile_of(const std::string& file) {
  const auto profile = rubato::parse_traffic_profile(text_of(file));
  EXPECT_TRUE(profile.ok()) << (profile.ok() ? "" : profile.error());
  return profile.ok() ? profile.value() : TrafficProfile();
}

// Keeps the thread that long, and returns how long it did.
nanoseconds spin(nanoseconds length) {
  const auto start = std::chrono::steady_clock::now();
  nanoseconds spent{};
  while (spent < length) spent = std::chrono::steady_clock::now() - start;
  return spent;
}

// Files cannot have more than 16 bytes while it lives.
class FullDisk {
 public:
  FullDisk() {
    EXPECT_EQ(::getrlimit(RLIMIT_FSIZE, &before_), 0);
    const rlimit little{16, before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &little), 0);
  }
  ~FullDisk() {
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &before_), 0);
    ::signal(SIGXFSZ, handler_);
  }
  FullDisk(const FullDisk&) = delete;

 private:
  rlimit before_{};
  void (*const handler_)(int) = ::signal(SIGXFSZ, SIG_IGN);
};

class Recorded : public ::testing::Test {
 protected:
  Recorded() {
    options_.policy = "fcfs";
    options_.workers = 1;
    options_.record_file = folder_ / "requests.trace";
    options_.profile_file = folder_ / "profile.json";
    std::filesystem::create_directory(folder_);
  }
  ~Recorded() override { std::filesystem::remove_all(folder_); }

  Executor executor(bool in_loop = false) const {
    auto made = Executor::create({.scheduler = options_,
                                  .type_names = {"short", "long"},
                                  .in_loop = in_loop});
    EXPECT_TRUE(made.ok()) << (made.ok() ? "" : made.error());
    return std::move(*made);
  }
  // Why there is none.
  std::string complaint() const {
    const auto made = Executor::create({.scheduler = options_});
    return made.ok() ? std::string() : made.error();
  }

  const std::filesystem::path folder_ = std::filesystem::path(testing::TempDir()) /
                                        ("recorders-" + std::to_string(::getpid()));
  Options options_;
};

void end(Executor& executor) {
  executor.stop();
  EXPECT_TRUE(executor.join());
}

double total_ns(const TrafficProfile::Type& type) {
  return static_cast<double>(rubato::service_of(type.service).mean.count()) *
         static_cast<double>(type.count);
}

TEST_F(Recorded, tasks_have_the_types_and_the_service_that_they_had) {
  constexpr uint64_t kTasks = 100, kLongOnes = 10;
  double spent_ns[2] = {};
  const auto start = std::chrono::steady_clock::now();
  {
    Executor executor = this->executor();
    for (uint64_t i = 0; i < kTasks; ++i) {
      const uint32_t type = i % (kTasks / kLongOnes) == 0 ? kLong : kShort;
      const auto run = [&spent_ns, type] {
        spent_ns[type] += static_cast<double>(spin(type == kLong ? 300us : 20us).count());
      };
      executor.submit(run, {.type = type}).get();
    }
    executor.submit([] {}, {.type = 2, .is_control = true}).get();
    end(executor);
    ASSERT_TRUE(executor.record(false).ok());
    ASSERT_TRUE(executor.write_profile().ok());
  }
  const nanoseconds all = std::chrono::steady_clock::now() - start;
  const auto trace = trace_of(options_.record_file);
  ASSERT_NE(trace, nullptr);
  EXPECT_EQ(trace->requests(), kTasks);
  EXPECT_EQ(trace->refused() + trace->dropped(), 0u);
  EXPECT_NEAR(static_cast<double>(trace->flows()), static_cast<double>(kTasks), 1);
  const TrafficProfile profile = profile_of(options_.profile_file);
  EXPECT_EQ(profile.policy, "fcfs");
  EXPECT_EQ(profile.control, 1u);
  ASSERT_GE(profile.types.size(), 2u);
  double sum_ns = 0;
  for (const uint32_t type : {kShort, kLong}) {
    const RequestTrace::Type& recorded = trace->types()[type];
    EXPECT_EQ(recorded.name, type == kLong ? "long" : "short");
    EXPECT_EQ(recorded.served, type == kLong ? kLongOnes : kTasks - kLongOnes);
    EXPECT_GE(recorded.service_ns, spent_ns[type]);
    EXPECT_EQ(profile.types[type].name, recorded.name);
    EXPECT_EQ(profile.types[type].count, recorded.served);
    EXPECT_NEAR(total_ns(profile.types[type]) / recorded.service_ns, 1, 0.02);
    sum_ns += recorded.service_ns;
  }
  EXPECT_LE(sum_ns, static_cast<double>(all.count()));
}

TEST_F(Recorded, each_recording_has_the_tasks_that_came_while_it_was_wanted) {
  Executor executor = this->executor();
  executor.submit([] {}, {.type = kLong}).get();
  while (executor.unfinished() > 0) std::this_thread::yield();
  ASSERT_TRUE(executor.record(false).ok());
  EXPECT_EQ(trace_of(options_.record_file)->types()[kLong].served, 1u);
  executor.submit([] {}, {.type = kLong}).get();  // in none
  while (executor.unfinished() > 0) std::this_thread::yield();
  ASSERT_TRUE(executor.record(true).ok());
  for (int i = 0; i < 3; ++i) executor.submit([] {}).get();
  end(executor);
  ASSERT_TRUE(executor.record(false).ok());
  const auto trace = trace_of(options_.record_file);
  EXPECT_EQ(trace->types()[kShort].served, 3u);
  EXPECT_EQ(trace->types()[kLong].served, 0u);
}

TEST_F(Recorded, files_of_an_executor_in_a_loop_are_written_too) {
  {
    Executor executor = this->executor(true);
    for (int i = 0; i < 3; ++i) {
      ASSERT_TRUE(executor.execute([] { spin(100us); }));
      while (executor.unfinished() > 0) executor.run(1ms);
    }
    EXPECT_TRUE(executor.record(false).ok());
  }
  EXPECT_EQ(trace_of(options_.record_file)->requests(), 3u);
  EXPECT_EQ(profile_of(options_.profile_file).types.at(0).count, 3u);
}

TEST_F(Recorded, a_full_disk_is_an_error_until_there_is_room) {
  Executor executor = this->executor();
  for (int i = 0; i < 3; ++i) executor.submit([] { spin(100us); }).get();
  end(executor);
  {
    const FullDisk full;
    EXPECT_NE(executor.record(false).error().find("record_file: cannot write"), std::string::npos);
    EXPECT_NE(executor.write_profile().error().find("profile_file: cannot write"),
              std::string::npos);
  }
  EXPECT_FALSE(executor.record(false).ok());  // what is lost stays lost
  EXPECT_TRUE(executor.record(true).ok());
  EXPECT_TRUE(executor.record(false).ok());
  EXPECT_TRUE(executor.write_profile().ok());
  EXPECT_EQ(profile_of(options_.profile_file).types.at(0).count, 3u);
}

TEST_F(Recorded, what_cannot_be_is_refused_in_one_line) {
  Executor executor = this->executor();
  EXPECT_EQ(executor.write_profile().error(), "profile_file: fewer than two requests came");
  EXPECT_EQ(executor.submit([&] { return executor.record(false); }).get().error(),
            "record_file: not on a worker");
  EXPECT_EQ(executor.submit([&] { return executor.write_profile(); }).get().error(),
            "profile_file: not on a worker");
  options_.record_limit_bytes = 1;
  EXPECT_NE(complaint().find("record_limit: takes a size from 1MiB"), std::string::npos);
  options_ = Options();
  options_.record_file = "/no/such/folder/requests.trace";
  EXPECT_EQ(complaint(), "record_file: cannot write '/no/such/folder/requests.trace': "
                         "No such file or directory");
  options_ = Options();
  options_.profile_file = "/no/such/folder/profile.json";
  EXPECT_EQ(complaint(), "profile_file: cannot write '/no/such/folder/profile.json': "
                         "No such file or directory");
  options_ = Options();
  Executor without = this->executor();
  EXPECT_EQ(without.record(true).error(), "record_file: the executor was created without one");
  EXPECT_EQ(without.write_profile().error(),
            "profile_file: the executor was created without one");
}

// In portions, so that the rings have room for most.
TEST_F(Recorded, a_recording_ends_at_its_limit) {
  options_.record_limit_bytes = size_t{1} << 20;
  Executor executor = this->executor();
  constexpr uint64_t kTasks = 400'000, kPortion = 2000;  // of some 10 bytes
  for (uint64_t i = 0; i < kTasks; i += kPortion) {
    for (uint64_t n = 0; n < kPortion; ++n) ASSERT_TRUE(executor.execute([] {}));
    while (executor.unfinished() > 0) std::this_thread::yield();
  }
  end(executor);
  ASSERT_TRUE(executor.record(false).ok());
  EXPECT_LE(std::filesystem::file_size(options_.record_file), options_.record_limit_bytes);
  const auto trace = trace_of(options_.record_file);
  EXPECT_LT(trace->requests(), kTasks);
  EXPECT_GT(trace->requests(), 50'000u);
}

TEST_F(Recorded, files_may_be_asked_for_by_several_threads_at_once) {
  Executor executor = this->executor();
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] {
      while (!done) {
        EXPECT_TRUE(executor.record(i % 2 == 0).ok());
        static_cast<void>(executor.write_profile());  // which may have too few as yet
      }
    });
  }
  for (int i = 0; i < 100; ++i) executor.submit([] { spin(50us); }).get();
  done = true;
  for (std::thread& thread : threads) thread.join();
  end(executor);
  EXPECT_TRUE(executor.write_profile().ok());
  EXPECT_EQ(profile_of(options_.profile_file).types.at(0).count, 100u);
}

TEST_F(Recorded, requests_of_a_server_are_recorded_with_their_connections) {
  options_.transport = rubato::Transport::kLoopback;
  rubato::Application app;
  app.framing = rubato::Framing::kLines;
  app.type_names = {"short", "long"};
  app.classify = [](std::string_view payload) {
    return rubato::Class{.type = payload == "long" ? kLong : kShort};
  };
  app.handle = [](rubato::Request& request) {
    spin(100us);
    request.reply(request.payload());
  };
  auto server = Server::create(options_, std::move(app));
  ASSERT_TRUE(server.ok()) << server.error();
  EXPECT_EQ(server->write_profile().error(), "profile_file: nothing has run yet");
  std::thread running([&] { EXPECT_TRUE(server->run().ok()); });
  {
    rubato::LoopbackClient one(*server), other(*server);
    ASSERT_TRUE(one.send("early\n"));  // perhaps before the recording
    ASSERT_EQ(one.receive(6), "early\n");
    ASSERT_TRUE(server->record(false).ok());
    ASSERT_TRUE(server->record(true).ok());
    for (const char* line : {"a\n", "b\n", "long\n"}) {
      ASSERT_TRUE(one.send(line));
      ASSERT_EQ(one.receive(std::string_view(line).size()), line);
      ASSERT_TRUE(other.send(line));
      ASSERT_EQ(other.receive(std::string_view(line).size()), line);
    }
  }
  server->stop();
  running.join();
  EXPECT_TRUE(server->record(false).ok());
  const auto trace = trace_of(options_.record_file);
  ASSERT_NE(trace, nullptr);
  EXPECT_EQ(trace->types()[kShort].served, 4u);
  EXPECT_EQ(trace->types()[kLong].served, 2u);
  EXPECT_EQ(trace->flows(), 2u);
  const TrafficProfile profile = profile_of(options_.profile_file);
  ASSERT_EQ(profile.types.size(), 2u);
  EXPECT_EQ(profile.types[kShort].count, 5u);
  EXPECT_EQ(profile.types[kLong].count, 2u);
  EXPECT_TRUE(server->write_profile().ok());  // the same again
}

}  // namespace
