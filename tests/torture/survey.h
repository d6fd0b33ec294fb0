/* SPDX-License-Identifier: Apache-2.0
 *
 * The survey: functions of the C library, each called with made-up arguments. survey.py writes one
 * caller per function from the prototypes of the installed headers; the makers of arguments are
 * here. What a function gives, returns and leaves in its arguments and in errno, is summed up.
 * Plain C, as in C++ some of the functions are overloaded. Any thread.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How many functions there are, the name of one, and what it gives for a seed. */
unsigned survey_count(void);
const char* survey_name(unsigned index);
uint64_t survey_run(unsigned index, uint64_t seed);

#ifdef __cplusplus
}
#endif
