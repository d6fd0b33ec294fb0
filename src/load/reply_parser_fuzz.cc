// SPDX-License-Identifier: Apache-2.0
//
// Any bytes as RESP replies.
#include "load/reply_parser.h"
#include "load/testing/check_cuts.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  rubato::load::check_cuts<rubato::load::ReplyParser>(data, size);
  return 0;
}
