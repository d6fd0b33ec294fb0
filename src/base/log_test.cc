// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <vector>

namespace rubato {
namespace {

class LogTest : public ::testing::Test {
 protected:
  void SetUp() override {
    log_configure(LogLevel::kInfo, LogFormat::kText);
    ASSERT_TRUE(log_open(path_).ok());
    log_left_out(true);
    std::ofstream(path_, std::ios::trunc).flush();
  }
  void TearDown() override { std::remove(path_.c_str()); }

  std::vector<std::string> lines() const { return lines_of(path_); }
  static std::vector<std::string> lines_of(const std::string& path) {
    std::vector<std::string> all;
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) all.push_back(line);
    return all;
  }

  // Tests run beside each other.
  const std::string path_ =
      ::testing::TempDir() + "rubato_log_test." + std::to_string(::getpid()) + ".log";
};

TEST_F(LogTest, a_line_of_text_has_time_level_event_message_and_fields) {
  log_line(LogLevel::kWarning, LogEvent::kStart, "two\nlines", {{"port", 6400}, {"to", "a b"}});
  ASSERT_EQ(lines().size(), 1u);
  const std::regex wanted(R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z warning start: two lines )"
                          R"(port=6400 to="a b")");
  EXPECT_TRUE(std::regex_match(lines()[0], wanted)) << lines()[0];
}

TEST_F(LogTest, a_line_of_json_is_an_object_whatever_it_tells) {
  log_configure(LogLevel::kInfo, LogFormat::kJson);
  const std::string odd = "quote \" slash \\ bell \a umlaut \xc3\xa4 half \xc3 end";
  log_line(LogLevel::kError, LogEvent::kStore, odd, {{"n", -7}, {"name", odd}});
  ASSERT_EQ(lines().size(), 1u);
  const auto line = nlohmann::json::parse(lines()[0]);
  EXPECT_EQ(line["level"], "error");
  EXPECT_EQ(line["event"], "store");
  EXPECT_EQ(line["n"], -7);
  EXPECT_EQ(line["message"],
            "quote \" slash \\ bell \a umlaut \xc3\xa4 half \xef\xbf\xbd end");
  EXPECT_EQ(line["name"], line["message"]);
}

TEST_F(LogTest, a_long_message_is_cut_and_the_line_stays_whole) {
  for (const LogFormat format : {LogFormat::kText, LogFormat::kJson}) {
    log_configure(LogLevel::kInfo, format);
    log_line(LogLevel::kInfo, LogEvent::kStart, std::string(100'000, '\1'),
             {{"name", std::string(100'000, 'x')}});
  }
  ASSERT_EQ(lines().size(), 2u);
  EXPECT_LT(lines()[0].size(), 4096u);
  EXPECT_LT(lines()[1].size(), 4096u);
  EXPECT_TRUE(nlohmann::json::accept(lines()[1])) << lines()[1];
}

TEST_F(LogTest, lines_below_the_level_are_left_out) {
  log_configure(LogLevel::kWarning, LogFormat::kText);
  log_line(LogLevel::kInfo, LogEvent::kStart, "no");
  log_line(LogLevel::kWarning, LogEvent::kStart, "yes");
  EXPECT_EQ(lines().size(), 1u);
}

TEST_F(LogTest, what_clients_cause_is_limited_and_the_rest_is_counted) {
  constexpr int kCaused = 10'000;
  for (int i = 0; i < kCaused; ++i) log_line(LogLevel::kInfo, LogEvent::kSlow, "slow");
  log_left_out(true);
  int told = 0;
  for (const std::string& line : lines()) {
    std::smatch more;
    told += line.ends_with("slow") || line.find(": slow ") != std::string::npos ? 1 : 0;
    if (std::regex_search(line, more, std::regex(R"(\(and (\d+) more\)$)"))) {
      told += std::stoi(more[1]);
    }
  }
  EXPECT_EQ(told, kCaused);
  EXPECT_LT(lines().size(), kCaused / 10u);
}

TEST_F(LogTest, what_the_server_itself_says_is_not_limited) {
  for (int i = 0; i < 100; ++i) log_line(LogLevel::kInfo, LogEvent::kState, "worker");
  EXPECT_EQ(lines().size(), 100u);
}

TEST_F(LogTest, a_file_that_was_moved_away_is_made_anew) {
  log_line(LogLevel::kInfo, LogEvent::kStart, "before");
  const std::string moved = path_ + ".1";
  ASSERT_EQ(std::rename(path_.c_str(), moved.c_str()), 0);
  log_line(LogLevel::kInfo, LogEvent::kStart, "meanwhile");
  ASSERT_TRUE(log_open(path_).ok());
  log_line(LogLevel::kInfo, LogEvent::kStart, "after");
  EXPECT_EQ(lines_of(moved).size(), 2u);
  EXPECT_EQ(lines().size(), 1u);
  std::remove(moved.c_str());
}

TEST_F(LogTest, a_file_that_cannot_be_opened_leaves_the_old_one) {
  const Status opened = log_open("/nowhere/at/all.log");
  ASSERT_FALSE(opened.ok());
  EXPECT_NE(opened.error().find("/nowhere/at/all.log"), std::string::npos);
  log_line(LogLevel::kInfo, LogEvent::kStart, "still here");
  EXPECT_EQ(lines().size(), 1u);
}

}  // namespace
}  // namespace rubato
