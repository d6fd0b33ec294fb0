// SPDX-License-Identifier: Apache-2.0
//
// Any text is a one-line error or a world that fits.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "fleet/world_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rubato::fleet;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  auto world = parse_world(text, "fuzz", parts_without_files());
  if (world.ok()) {
    RUBATO_CHECK(validate(*world).ok());
  } else {
    RUBATO_CHECK(!world.error().empty() && world.error().find('\n') == std::string::npos);
  }
  return 0;
}
