/* SPDX-License-Identifier: Apache-2.0
 *
 * A library as others write them: thread-local state that lasts over several calls, and nothing of
 * ours. It is built apart and linked like any other shared object.
 */
#include "tests/torture/foreign.h"

#include <stdint.h>
#include <stdio.h>

static _Thread_local uint64_t state;
static _Thread_local char text[64];
static _Thread_local const uint64_t *where; /* the address of a thread-local is the thread's too */

void foreign_begin(uint64_t seed) {
  state = seed;
  where = &state;
}

void foreign_step(uint64_t rounds) {
  for (uint64_t i = 0; i < rounds; ++i) state = state * 6364136223846793005u + 1442695040888963407u;
}

const char *foreign_text(void) {
  snprintf(text, sizeof(text), "%016llx", (unsigned long long)*where);
  return text;
}

int is_first_queue(void) { return where == &state; }
