// SPDX-License-Identifier: Apache-2.0
//
// rubato doctor: the features of this machine, one line each, with advice.
#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/common/command_registry.h"
#include "cli/doctor/doctor_findings.h"

namespace rubato::cli {
namespace {

constexpr int kNoiseMilliseconds = 300;

const char* health_text(Health health) {
  switch (health) {
    case Health::kOk:
      return "ok";
    case Health::kInfo:
      return "info";
    case Health::kWarn:
      return "warn";
  }
  return "info";
}

std::vector<Finding> examine_all() {
  std::vector<Finding> all;
  for (auto* examine : {examine_hardware, examine_preemption, examine_mechanisms, examine_limits}) {
    for (Finding& finding : examine()) all.push_back(std::move(finding));
  }
  all.push_back(examine_noise(kNoiseMilliseconds));
  return all;
}

void print_text(const std::vector<Finding>& findings) {
  for (const Finding& f : findings) {
    fmt::print("{:<5} {:<12} {}\n{:19}{}\n", health_text(f.health), f.name, f.found, "", f.advice);
  }
}

void print_json(const std::vector<Finding>& findings) {
  auto list = nlohmann::ordered_json::array();
  for (const Finding& f : findings) {
    list.push_back({{"name", f.name},
                    {"status", health_text(f.health)},
                    {"found", f.found},
                    {"advice", f.advice}});
  }
  const auto lenient = nlohmann::ordered_json::error_handler_t::replace;
  std::puts(list.dump(1, ' ', false, lenient).c_str());
}

void add_doctor(CommandLine& command) {
  auto json = std::make_shared<bool>(false);
  command.add_flag("--json", *json, "As JSON");
  command.action([json] {
    *json ? print_json(examine_all()) : print_text(examine_all());
    return kDone;
  });
}

const Command kDoctor(
    {"", "doctor", "Say what this machine offers, with a line of advice each", add_doctor});

}  // namespace
}  // namespace rubato::cli
