/* SPDX-License-Identifier: Apache-2.0
 *
 * Makers of arguments and takers of results for the callers that survey.py writes. The arguments
 * are ordinary: strings of digits, words or dates, buffers that have room for all that is asked of
 * them, numbers that are counts, characters or flags.
 */
#pragma once

#include <complex.h>
#include <errno.h>
#include <locale.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <wchar.h>

enum { kBuffers = 10, kBufferBytes = 2048, kCountMost = 64 };

struct SurveyState {
  uint64_t random;
  uint64_t sum;
  unsigned used;
  _Alignas(64) char buffers[kBuffers][kBufferBytes];
  char* ends[kBuffers]; /* what char** points to */
  FILE* stream;
  struct tm* date;
};

static inline uint64_t survey_draw(struct SurveyState* s, uint64_t bound) {
  s->random ^= s->random >> 12;
  s->random ^= s->random << 25;
  s->random ^= s->random >> 27;
  return (s->random * 0x2545f4914f6cdd1du >> 16) % bound;
}

static inline void survey_add(struct SurveyState* s, uint64_t value) {
  for (int i = 0; i < 8; ++i) s->sum = (s->sum ^ (value >> (8 * i) & 255)) * 0x100000001b3u;
}

static inline void survey_add_bytes(struct SurveyState* s, const char* bytes, size_t size) {
  for (size_t i = 0; i < size; ++i) s->sum = (s->sum ^ (uint8_t)bytes[i]) * 0x100000001b3u;
}

/* (A NaN has many forms.) */
static inline void survey_add_real(struct SurveyState* s, long double value) {
  const double as_double = (double)value;
  uint64_t bits = 0;
  if (as_double == as_double) memcpy(&bits, &as_double, sizeof(bits));
  survey_add(s, bits);
}

/* An address means something only within the arguments. */
static inline void survey_add_pointer(struct SurveyState* s, const void* pointer) {
  const uintptr_t offset = (uintptr_t)pointer - (uintptr_t)s->buffers;
  survey_add(s, offset < sizeof(s->buffers) ? 2 + offset : pointer != NULL);
}

static inline void* survey_buffer(struct SurveyState* s) {
  return s->buffers[s->used++ % kBuffers];
}

static inline char* survey_text(struct SurveyState* s) {
  static const char* const kTexts[] = {
      "42", "-3.25e2", "0x1p-3 and more", "a word", "one,two;three four", "/usr/share/zoneinfo",
      "127.0.0.1", "::1", "2024-02-29 12:34:56", "%Y-%m-%d %H:%M", "root", "", "zzz\tyyy\n", "*.c*",
  };
  const char* text = kTexts[survey_draw(s, sizeof(kTexts) / sizeof(kTexts[0]))];
  return strcpy(survey_buffer(s), text);
}

static inline wchar_t* survey_wide(struct SurveyState* s) {
  const char* text = survey_text(s);
  wchar_t* wide = survey_buffer(s);
  size_t i = 0;
  for (; text[i] != 0; ++i) wide[i] = text[i];
  wide[i] = 0;
  return wide;
}

static inline char** survey_end(struct SurveyState* s) {
  char** end = &s->ends[s->used % kBuffers];
  *end = survey_text(s);
  return end;
}

static inline long double survey_real(struct SurveyState* s) {
  static const double kReals[] = {0.0, -0.0, 0.5, -1.0, 1.0, 2.75, 1e-300, 1e300, 3.14159, -1e9};
  if (survey_draw(s, 3) == 0) return kReals[survey_draw(s, sizeof(kReals) / sizeof(kReals[0]))];
  return (long double)survey_draw(s, 1u << 20) / 4096.0L - 100.0L;
}

static inline struct tm* survey_tm(struct SurveyState* s) {
  const time_t when = (time_t)survey_draw(s, 2000000000);
  return s->date = gmtime_r(&when, survey_buffer(s));
}

static inline FILE* survey_stream(struct SurveyState* s) {
  if (s->stream == NULL) s->stream = fmemopen(survey_text(s), 40, "r+");
  return s->stream;
}

locale_t survey_locale(void);
