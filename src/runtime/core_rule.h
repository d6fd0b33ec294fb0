// SPDX-License-Identifier: Apache-2.0
//
// CoreRule: one of the allocators of src/overload/cores behind virtual calls, with the state that
// it keeps per seat. Made at set-up by name; controller() by one seat at a time, the rest by the
// worker that it names.
//
// Their times are those of a kernel-bypass machine. Here a worker that sleeps takes ten times as
// long to wake as theirs, so every time that nobody sets is ten times the paper's.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "overload/cores/contract.h"
#include "runtime/credit_source.h"

namespace rubato {

// What an idle worker may ask (overload::IdleHost). Shared by all workers.
class IdleCores {
 public:
  // `credits` may be null: nobody is drained then, and nothing outstanding.
  explicit IdleCores(CreditSource* credits) : credits_(credits) {}

  int64_t drained() { return credits_ != nullptr ? credits_->drained() : 0; }
  int64_t sessions() { return credits_ != nullptr ? credits_->sessions() : 0; }
  int64_t outstanding() { return credits_ != nullptr ? credits_->outstanding() : 0; }
  void withhold(int64_t n) { if (credits_ != nullptr) credits_->withhold(n); }
  void give_back(int64_t n) { if (credits_ != nullptr) credits_->give_back(n); }

  int64_t cores() { return granted.load(std::memory_order_relaxed); }
  // Acquire and release pair with each other: who parks next sees what the last one withheld.
  bool claim_parking() { return !parking_.test_and_set(std::memory_order_acquire); }
  void release_parking() { parking_.clear(std::memory_order_release); }

  std::atomic<int64_t> granted{0};

 private:
  CreditSource* credits_;
  std::atomic_flag parking_{};
};

class CoreRule {
 public:
  virtual ~CoreRule() = default;

  // Fails with one line for a name or a setting that does not exist.
  static Result<std::unique_ptr<CoreRule>> make(const std::string& name,
                                                const std::map<std::string, std::string>& settings,
                                                uint32_t workers);

  virtual Nanos interval() const = 0;
  virtual overload::CoreChange change(const overload::CoreSignals& signals) = 0;
  virtual overload::Rest idle(WorkerId worker, Nanos polled, IdleCores& host) = 0;
  virtual void resumed(WorkerId worker, IdleCores& host) = 0;
};

// "static, reactive, ...", for messages.
std::string core_rule_names();

}  // namespace rubato
