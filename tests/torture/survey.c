/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE 1
#include "tests/torture/survey.h"

#include <stddef.h>

#include "tests/torture/survey_makers.h"

/* The callers that survey.py has written. */
extern const struct SurveyCaller {
  const char* name;
  void (*call)(struct SurveyState*);
} survey_callers[];
extern const unsigned survey_callers_count;

unsigned survey_count(void) { return survey_callers_count; }

const char* survey_name(unsigned index) { return survey_callers[index].name; }

/* Of this process, and never given back. */
locale_t survey_locale(void) {
  static _Atomic locale_t made;
  if (made == NULL) {
    locale_t mine = newlocale(LC_ALL_MASK, "C", NULL);
    locale_t none = NULL;
    if (!__atomic_compare_exchange_n((locale_t*)&made, &none, mine, 0, __ATOMIC_SEQ_CST,
                                     __ATOMIC_SEQ_CST)) {
      freelocale(mine);
    }
  }
  return made;
}

/* timegm fills the gap behind tm_isdst with what was on its stack. */
static void clear_gap(struct tm* date) {
  const size_t gap = offsetof(struct tm, tm_isdst) + sizeof(date->tm_isdst);
  memset((char*)date + gap, 0, offsetof(struct tm, tm_gmtoff) - gap);
}

uint64_t survey_run(unsigned index, uint64_t seed) {
  struct SurveyState s;
  memset(&s, 0, sizeof(s));
  s.random = seed * 0x9e3779b97f4a7c15u + 0x1234567 + index;
  s.sum = 0xcbf29ce484222325u;
  survey_callers[index].call(&s);
  const int error = errno;
  survey_add(&s, (uint64_t)error);
  if (s.date != NULL) clear_gap(s.date);
  for (unsigned i = 0; i < kBuffers; ++i) {
    survey_add_bytes(&s, s.buffers[i], 256);
    survey_add_pointer(&s, s.ends[i]);
  }
  if (s.stream != NULL) fclose(s.stream);
  return s.sum;
}
