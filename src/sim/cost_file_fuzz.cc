// SPDX-License-Identifier: Apache-2.0
//
// Any bytes make a machine or a one-line error, and a machine is read back as it is written.
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "sim/cost_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rubato::sim;
  const auto costs = parse_costs({reinterpret_cast<const char*>(data), size}, "fuzz");
  if (!costs.ok()) {
    RUBATO_CHECK(costs.error().find('\n') == std::string::npos);
    return 0;
  }
  const std::string text = to_toml(costs.value());
  const auto again = parse_costs(text, "fuzz");
  RUBATO_CHECK(again.ok() && to_toml(again.value()) == text);
  return 0;
}
