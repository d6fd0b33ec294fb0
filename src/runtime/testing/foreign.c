/* SPDX-License-Identifier: Apache-2.0 */
#include "foreign.h"

unsigned long foreign_wait(const volatile int* stop) {
  unsigned long rounds = 0;
  while (*stop == 0) ++rounds;
  return rounds;
}

double foreign_checksum(unsigned long rounds, double seed) {
  double real[20];
  unsigned long whole[20];
  double sum = 0;
  int i;
  for (i = 0; i < 20; ++i) {
    real[i] = seed + i;
    whole[i] = (unsigned long)(seed * 1000) + (unsigned long)i;
  }
  for (unsigned long round = 0; round < rounds; ++round) {
    for (i = 0; i < 20; ++i) {
      real[i] = real[i] * 0.999 + 1.25;
      whole[i] = whole[i] * 6364136223846793005UL + 1442695040888963407UL;
    }
  }
  for (i = 0; i < 20; ++i) sum += real[i] + (double)(whole[i] >> 40);
  return sum;
}
