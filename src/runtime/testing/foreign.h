/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests of interrupts: code that knows nothing of us, compiled as C without our headers, as a
 * third party's library would be. No calls, no checkpoints; any thread.
 */
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

/* Loops until *stop is not 0, and returns how often. */
unsigned long foreign_wait(const volatile int* stop);

/* Loops for about `rounds` rounds with more live integers and floating-point numbers than there are
 * registers, and returns a checksum of all of them. */
double foreign_checksum(unsigned long rounds, double seed);

#ifdef __cplusplus
}
#endif
