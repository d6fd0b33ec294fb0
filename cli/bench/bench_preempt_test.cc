// SPDX-License-Identifier: Apache-2.0
//
// `rubato bench preempt` as a user meets it. No figure of the machine is judged.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "mechanism/cpu/pin.h"
#include "mechanism/preempt/mechanism.h"

namespace rubato::cli {
namespace {

int rubato(const std::string& arguments) {
  const std::string command = std::string(RUBATO_BINARY) + " bench preempt " + arguments;
  const int code = std::system(command.c_str());
  return WIFEXITED(code) ? WEXITSTATUS(code) : -1;
}

void expect_stage(const nlohmann::json& delivery, const char* stage) {
  ASSERT_TRUE(delivery[stage].is_object()) << stage;
  EXPECT_EQ(delivery[stage]["count"], 100) << stage;
  EXPECT_LE(delivery[stage]["p50_ns"], delivery[stage]["p999_ns"]) << stage;
}

void expect_measured(const nlohmann::json& entry) {
  for (const char* stage : {"send", "propagation", "receive", "return"}) {
    expect_stage(entry["delivery"], stage);
  }
  EXPECT_EQ(entry["delivery"]["disarm"].is_object(), entry["name"] == "timer");
  ASSERT_EQ(entry["quanta"].size(), 4u);
  for (const auto& quantum : entry["quanta"]) {
    EXPECT_EQ(quantum["achieved"]["count"], 10);
    EXPECT_GT(quantum["cost"]["p50_ns"], 0.0);
  }
}

TEST(BenchPreempt, lists_every_mechanism_measured_or_with_the_reason_why_not) {
  const std::string path = testing::TempDir() + "rubato_bench.json";
  ASSERT_EQ(rubato("--rounds 100 --json " + path + " > /dev/null"), 0);
  std::ifstream file(path);
  const auto all = nlohmann::json::parse(file);
  EXPECT_EQ(all["schema"], "rubato.bench-preempt/1");
  ASSERT_EQ(all["mechanisms"].size(), 5u);
  for (const auto& entry : all["mechanisms"]) {
    const std::string name = entry["name"];
    const Status has = available(preempt_mechanism(name).value());
    if (!has.ok()) {
      EXPECT_EQ(entry["reason"], has.error());
    } else if (entry["measured"] == true) {
      expect_measured(entry);
    } else {
      EXPECT_LT(allowed_cpus().size(), 2u) << name << ": " << entry["reason"];
    }
  }
  std::filesystem::remove(path);
}

TEST(BenchPreempt, one_that_is_missing_is_an_error_when_asked_for) {
  for (const PreemptMechanism mechanism : kPreemptMechanisms) {
    if (available(mechanism).ok()) continue;
    EXPECT_EQ(rubato("--mechanism " + std::string(to_string(mechanism)) + " 2> /dev/null"), 1);
  }
}

TEST(BenchPreempt, bad_options_and_a_full_disk_are_said) {
  EXPECT_EQ(rubato("--mechanism magic 2> /dev/null"), 2);
  EXPECT_EQ(rubato("--rounds 0 2> /dev/null"), 2);
  EXPECT_EQ(rubato("--mechanism timer --rounds 100 --json /dev/full > /dev/null 2>&1"),
            1);
}

}  // namespace
}  // namespace rubato::cli
