// SPDX-License-Identifier: Apache-2.0
//
// A long request for the examples: "work N" is N million steps with a checkpoint at each. C and
// C++; to be called by the code of a request, as it may switch.
#pragma once

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <rubato/rubato.h>

// 0 = the request is no work.
static inline uint64_t work_steps(const char* text, size_t size) {
  char number[16] = {0};
  if (size <= 5 || size - 5 >= sizeof number || memcmp(text, "work ", 5) != 0) return 0;
  memcpy(number, text + 5, size - 5);
  return strtoull(number, NULL, 10) * 1000000;
}

static inline uint64_t work(uint64_t steps) {
  uint64_t value = 1;
  for (uint64_t i = 0; i < steps; ++i) {
    value = value * 6364136223846793005u + 1442695040888963407u;
    rubato_checkpoint_inline();
  }
  return value;
}
