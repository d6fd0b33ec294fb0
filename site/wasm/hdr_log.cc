// SPDX-License-Identifier: Apache-2.0
//
// HdrHistogram logs are deflated, and there is no zlib for WASI.
#include "metrics/hdr_log.h"

#include <stdexcept>

namespace rubato {

std::string hdr_log(const std::vector<HdrInterval>&) {
  throw std::runtime_error("--hdr: takes zlib, which this build has not; --json works");
}

}  // namespace rubato
