// SPDX-License-Identifier: Apache-2.0
//
// How figures become a cost file, and `rubato calibrate` as a user meets it. No figure of the
// machine is judged.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/calibrate.h"

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

Samples sampled() {
  Samples samples;
  const auto set = [&](What what, double median_ns, double tail_ns) {
    samples[what] = {.median_ns = median_ns, .tail_ns = tail_ns, .batches = 1000};
  };
  set(What::kPut, 10, 20);
  set(What::kTake, 5, 5);
  set(What::kPoll, 32, 64);
  set(What::kReceive, 316, 516);
  set(What::kSend, 100, 100);
  set(What::kIdle, 1000, 2000);
  set(What::kStealOne, 50, 90);
  set(What::kStealEight, 120, 300);
  set(What::kArm, 3, 3);
  set(What::kFeedback, 13, 20);
  set(What::kSliceEnd, 85, 200);
  set(What::kPreemption, 200, 500);
  return samples;
}

TEST(CalibrateCosts, the_way_in_is_told_apart) {
  const sim::Costs costs = costs_of(sampled());
  EXPECT_EQ(costs.worker.put.typical, Nanos(10));
  EXPECT_EQ(costs.worker.put.tail, Nanos(20));
  EXPECT_EQ(costs.worker.receive.typical, Nanos(300));  // less put, take, and 1/32 of a poll
  EXPECT_EQ(costs.worker.notice, Nanos((1000 - 300 - 10 - 5 - 32 - 100 + 1) / 2));
}

TEST(CalibrateCosts, a_preemption_is_its_parts) {
  const sim::Costs costs = costs_of(sampled());
  const Nanos parts = costs.preemption.receive.typical + costs.worker.poll.typical +
                      costs.worker.put.typical + costs.worker.fresh_fiber.typical +
                      costs.worker.take.typical + costs.worker.resume.typical +
                      costs.preemption.arm.typical;
  EXPECT_EQ(parts, Nanos(200));
  EXPECT_EQ(costs.worker.feedback, Nanos(10));
  EXPECT_EQ(costs.worker.steal_each, Nanos(10));
}

TEST(CalibrateCosts, noise_never_makes_a_price_negative) {
  Samples samples = sampled();
  samples[What::kIdle] = {.median_ns = 1, .tail_ns = 1, .batches = 1};
  samples[What::kPreemption] = samples[What::kReceive] = samples[What::kIdle];
  const sim::Costs costs = costs_of(samples);
  EXPECT_EQ(costs.worker.notice, Nanos(0));
  EXPECT_EQ(costs.worker.receive.typical, Nanos(0));
  EXPECT_EQ(costs.worker.resume.typical, Nanos(0));
}

TEST(CalibrateCosts, the_file_is_read_back_and_says_what_is_missing) {
  const std::string text = to_toml(costs_of(sampled()), notes_of(sampled()));
  const auto costs = sim::parse_costs(text, "f.toml");
  ASSERT_TRUE(costs.ok()) << costs.error();
  EXPECT_EQ(to_toml(costs.value()), to_toml(costs_of(sampled())));
  EXPECT_NE(text.find("# resume from afar: not measured"), std::string::npos) << text;
}

TEST(CalibrateMeter, stalls_are_left_out_and_counted) {
  const Meter meter(Nanos::millis(1));
  Collector collector(meter);
  for (int i = 0; i < 100; ++i) collector.add(10, kBatch);
  collector.add(7000, kBatch);
  const Sample sample = collector.sample();
  EXPECT_EQ(sample.batches, 100u);
  EXPECT_EQ(sample.stalls, 1u);
  EXPECT_FLOAT_EQ(static_cast<float>(sample.tail_ns), 10);
}

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
  EXPECT_EQ(figures["measured"].size(), static_cast<size_t>(What::kCount));
  std::filesystem::remove(out);
  std::filesystem::remove(json);
}

TEST(Calibrate, what_cannot_be_written_is_one_line_and_status_1) {
  const std::string errors = temporary("calibrate_errors");
  EXPECT_EQ(rubato("--seconds 0.05 --out /dev/full > /dev/null 2> " + errors), 1);
  EXPECT_TRUE(contents(errors).ends_with("rubato: cannot write '/dev/full'\n")) << contents(errors);
  std::filesystem::remove(errors);
}

}  // namespace
}  // namespace rubato::cli
