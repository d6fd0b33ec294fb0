// SPDX-License-Identifier: Apache-2.0
//
// Any text is a one-line error or histograms that are the same when they are written and read
// again.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "metrics/hdr_log.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rubato;
  auto log = parse_hdr_log({reinterpret_cast<const char*>(data), size});
  if (!log.ok()) {
    RUBATO_CHECK(!log.error().empty() && log.error().find('\n') == std::string::npos);
    return 0;
  }
  auto again = parse_hdr_log(hdr_log(*log));
  RUBATO_CHECK(again.ok() && again->size() == log->size());
  for (size_t i = 0; i < log->size(); ++i) {
    RUBATO_CHECK((*again)[i].histogram.count() == (*log)[i].histogram.count());
  }
  return 0;
}
