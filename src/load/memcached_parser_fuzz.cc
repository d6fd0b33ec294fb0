// SPDX-License-Identifier: Apache-2.0
//
// Any bytes as replies of memcached's text protocol.
#include "load/memcached_parser.h"
#include "load/testing/check_cuts.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  rubato::load::check_cuts<rubato::load::MemcachedParser>(data, size);
  return 0;
}
