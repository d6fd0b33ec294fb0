// SPDX-License-Identifier: Apache-2.0
//
// IdleCores: the facts from which an idle worker decides whether to park. Shared by all workers,
// which may all call it at the same time.
#pragma once

#include <atomic>
#include <cstdint>

#include "overload/cores/rule.h"
#include "rpc/credit_source.h"

namespace rubato {

// The allocators' times are those of kernel-bypass machines. Here a worker sleeps in the kernel,
// where a wake-up takes ten times as long.
inline constexpr double kCoreTimeScale = 10;

class IdleCores final : public overload::CoreHost {
 public:
  // `credits` may be null: no client is drained then, and no credit outstanding.
  explicit IdleCores(CreditSource* credits) : credits_(credits) {}

  int64_t drained() override { return credits_ != nullptr ? credits_->drained() : 0; }
  int64_t sessions() override { return credits_ != nullptr ? credits_->sessions() : 0; }
  int64_t outstanding() override { return credits_ != nullptr ? credits_->outstanding() : 0; }
  void withhold(int64_t n) override { if (credits_ != nullptr) credits_->withhold(n); }
  void give_back(int64_t n) override { if (credits_ != nullptr) credits_->give_back(n); }

  int64_t cores() override { return granted.load(std::memory_order_relaxed); }
  // Acquire and release pair with each other: the worker that parks next sees the credits that the
  // last one withheld.
  bool claim_parking() override { return !parking_.test_and_set(std::memory_order_acquire); }
  void release_parking() override { parking_.clear(std::memory_order_release); }

  std::atomic<int64_t> granted{0};

 private:
  CreditSource* credits_;
  std::atomic_flag parking_{};
};

}  // namespace rubato
