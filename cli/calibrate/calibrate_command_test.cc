// SPDX-License-Identifier: Apache-2.0
//
// `rubato calibrate` as a user meets it. No figure of the machine is judged.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "calibrate/measurements.h"

namespace rubato::cli {
namespace {

int rubato(const std::string& arguments) {
  const std::string command = std::string(RUBATO_BINARY) + " calibrate " + arguments;
  const int code = std::system(command.c_str());
  return WIFEXITED(code) ? WEXITSTATUS(code) : -1;
}

std::string contents(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string temporary(const char* name) { return testing::TempDir() + "rubato_" + name; }

TEST(Calibrate, writes_a_cost_file_that_the_simulator_reads) {
  const std::string out = temporary("calibrated.toml");
  const std::string json = temporary("calibrated.json");
  ASSERT_EQ(rubato("--seconds 0.2 --name here --out " + out + " --json " + json + " > /dev/null"),
            0);
  const auto costs = sim::load_costs(out);
  ASSERT_TRUE(costs.ok()) << costs.error();
  EXPECT_EQ(costs.value().name, "here");
  EXPECT_EQ(costs.value().nic.delivery, sim::Delivery::kPolled);
  EXPECT_GT(costs.value().worker.receive.typical, Nanos(0));
  const auto figures = nlohmann::json::parse(contents(json));
  EXPECT_EQ(figures["schema"], "rubato.calibrate/1");
  EXPECT_EQ(figures["measured"].size(), static_cast<size_t>(calibrate::Operation::kCount));
  std::filesystem::remove(out);
  std::filesystem::remove(json);
}

TEST(Calibrate, what_cannot_be_written_is_one_line_and_status_1) {
  const std::string errors = temporary("calibrate_errors");
  EXPECT_EQ(rubato("--seconds 0.05 --out /dev/full > /dev/null 2> " + errors), 1);
  const char* const why = "rubato: cannot write '/dev/full': No space left on device\n";
  EXPECT_TRUE(contents(errors).ends_with(why)) << contents(errors);
  std::filesystem::remove(errors);
}

}  // namespace
}  // namespace rubato::cli
