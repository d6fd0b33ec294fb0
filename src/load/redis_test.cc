// SPDX-License-Identifier: Apache-2.0
//
// The generator against a foreign server: Debian's redis-server, if it is installed.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "load/generator.h"
#include "load/preload.h"

extern char** environ;

namespace rubato::load {
namespace {

constexpr const char* kServer = "/usr/bin/redis-server";

uint16_t free_port() {
  const Fd fd(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  EXPECT_EQ(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), length), 0);
  EXPECT_EQ(::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &length), 0);
  return ntohs(address.sin_port);
}

// A redis-server of this test's own, without persistence.
class RedisTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::access(kServer, X_OK) != 0) GTEST_SKIP() << kServer << " is not installed";
    target_ = {Protocol::kResp, "127.0.0.1", free_port()};
    const std::string port = std::to_string(target_.port);
    const std::string folder = std::filesystem::temp_directory_path().string();
    const char* const arguments[] = {
        kServer,   "--port",       port.c_str(), "--bind", "127.0.0.1",    "--save",
        "",        "--appendonly", "no",         "--dir",  folder.c_str(), "--requirepass",
        kPassword, nullptr};
    int log[2] = {-1, -1};
    ASSERT_EQ(::pipe2(log, O_CLOEXEC), 0);
    log_ = Fd(log[0]);
    Fd log_end(log[1]);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, log_end.get(), STDOUT_FILENO);
    const int spawned = ::posix_spawn(&child_, kServer, &actions, nullptr,
                                      const_cast<char* const*>(arguments), environ);
    ::posix_spawn_file_actions_destroy(&actions);
    ASSERT_EQ(spawned, 0);
    log_end.reset();
    await_ready();
  }

  // Its log says when it takes connections.
  void await_ready() {
    std::string text;
    char piece[4096];
    while (text.find("Ready to accept connections") == std::string::npos) {
      const ssize_t got = ::read(log_.get(), piece, sizeof piece);
      ASSERT_GT(got, 0) << "redis-server did not start: " << text;
      text.append(piece, static_cast<size_t>(got));
    }
  }

  void TearDown() override {
    if (child_ <= 0) return;
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }

  Result<RunReport> run(std::string_view mix, const std::string& password, uint32_t clients = 0) {
    LoadOptions options;
    options.target = target_;
    options.rate = 500;
    options.duration = Nanos::millis(500);
    options.flows = 8;
    options.closed_clients = clients;
    options.password = password;
    auto source = make_kv_source(mix, shape_, "");
    Generator generator(options, **source,
                        Arrivals::generate(ArrivalShape::kPoisson, options.rate, 1));
    const volatile std::sig_atomic_t stop = 0;
    return generator.run(&stop);
  }

  static constexpr const char* kPassword = "secret";
  const KvShape shape_{.keys = 2000, .value_size_bytes = 32, .scan_limit = 100};
  Target target_;
  pid_t child_ = -1;
  Fd log_;
};

TEST_F(RedisTest, answers_every_verb_that_redis_has_without_an_error) {
  const std::string mix =
      "get:9,set:9,incr:2,del:1,exists:1,ping:1,mget:2,mset:1,scan:1,keys:1,lrange:1,"
      "smembers:1,hgetall/50:1,eval/1000:1";
  LoadOptions options;
  options.target = target_;
  options.password = kPassword;
  ASSERT_TRUE(preload(options, plan_preload(mix, shape_)).ok());
  const Result<RunReport> report = run(mix, kPassword);
  ASSERT_TRUE(report.ok()) << report.error();
  EXPECT_EQ(report.value().errors + report.value().refused + report.value().lost, 0u);
  uint64_t replies = 0;
  for (const TypeReport& type : report.value().types) replies += type.count;
  EXPECT_EQ(replies, report.value().requests);
}

TEST_F(RedisTest, serves_any_command_of_a_mix) {
  const Result<RunReport> report =
      run("rpush/mylist/{value}:1,lrange/mylist/0/100:1,hset/h/{key}/a%2Fb:1,hgetall/h:5,"
          "zadd/z/1.5/{key}:1,zrange/z/0/-1/WITHSCORES:1,eval/return %7B1%2C%7B2}}/0:1",
          kPassword);
  ASSERT_TRUE(report.ok()) << report.error();
  EXPECT_EQ(report.value().errors + report.value().refused + report.value().lost, 0u);
  ASSERT_EQ(report.value().types.size(), 7u);
  for (const TypeReport& type : report.value().types) EXPECT_GT(type.count, 0u) << type.name;
}

TEST_F(RedisTest, an_unknown_command_makes_the_run_invalid_and_says_why) {
  const Result<RunReport> report = run("range:1", kPassword);
  ASSERT_TRUE(report.ok()) << report.error();
  EXPECT_EQ(report.value().errors, report.value().requests);
  EXPECT_NE(report.value().invalid_reason.find("unknown command"), std::string::npos);
}

TEST_F(RedisTest, a_wrong_password_is_one_line) {
  const Result<RunReport> report = run("get:1", "wrong");
  ASSERT_FALSE(report.ok());
  EXPECT_NE(report.error().find("WRONGPASS"), std::string::npos);
}

TEST_F(RedisTest, serves_a_closed_loop) {
  const Result<RunReport> report = run("get:1", kPassword, 4);
  ASSERT_TRUE(report.ok()) << report.error();
  EXPECT_GT(report.value().types[0].count, 0u);
  EXPECT_EQ(report.value().loop, "closed");
}

}  // namespace
}  // namespace rubato::load
