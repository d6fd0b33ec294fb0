/* SPDX-License-Identifier: Apache-2.0
 *
 * The face of a library whose state is thread-local. C; any thread, each for itself.
 */
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

void foreign_begin(uint64_t seed);
void foreign_step(uint64_t rounds);
const char *foreign_text(void); /* until the thread's next call */
int is_first_queue(void);

#ifdef __cplusplus
}
#endif
