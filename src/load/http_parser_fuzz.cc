// SPDX-License-Identifier: Apache-2.0
//
// Any bytes as responses of an HTTP/1.1 server.
#include "load/http_parser.h"
#include "load/testing/check_cuts.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  rubato::load::check_cuts<rubato::load::HttpParser>(data, size);
  return 0;
}
