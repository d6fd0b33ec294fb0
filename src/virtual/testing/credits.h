// SPDX-License-Identifier: Apache-2.0
//
// all_credits_are_back: the books of an admission controller once its sessions are closed. For
// tests.
#pragma once

#include <gtest/gtest.h>

#include "mechanism/clock/clock.h"
#include "rpc/admission.h"

namespace rubato::virt::testing {

inline ::testing::AssertionResult all_credits_are_back(const rpc::AdmissionController& admission) {
  const auto& pool = admission.pool();
  if (pool.sessions() == 0 && pool.issued() == 0 && pool.pending() == 0 && pool.drained() == 0 &&
      pool.withheld() == 0 && admission.delay(now()) == Nanos()) {
    return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure()
         << pool.sessions() << " sessions, " << pool.issued() << " credits issued, "
         << pool.pending() << " pending, " << pool.drained() << " sessions drained, "
         << pool.withheld() << " withheld, delay " << admission.delay(now()).count() << " ns";
}

}  // namespace rubato::virt::testing
