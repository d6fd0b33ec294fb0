// SPDX-License-Identifier: Apache-2.0
#include "tests/torture/foreign_work.h"

namespace torture {
namespace {

// Its threads wait for each other in futexes of its own.
uint64_t openmp_teams(uint64_t seed) {
  uint64_t total = 0;
  static uint64_t outside = 0;
#pragma omp parallel for reduction(+ : total) num_threads(2)
  for (int i = 0; i < 2'000; ++i) {
    total += static_cast<uint64_t>(i) * seed;
#pragma omp critical
    ++outside;
  }
  return total;
}

const Registered kOpenmpTeams{"OpenMP", openmp_teams};

}  // namespace
}  // namespace torture
