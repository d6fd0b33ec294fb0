// SPDX-License-Identifier: Apache-2.0
//
// CoreRule: an allocator of cores (overload/cores/all.h), chosen by name at run time, with the
// state of its controller and of every core. The simulator's side of overload/cores/contract.h.
// One owner.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "overload/cores/contract.h"
#include "overload/credit_pool.h"

namespace rubato::sim {

// What an idle core asks.
struct CoreHost {
  int64_t drained() const { return pool->drained(); }
  int64_t sessions() const { return pool->sessions(); }
  int64_t outstanding() const { return pool->issued() - pool->pending(); }
  int64_t cores() const { return granted; }
  bool claim_parking() { return std::exchange(parking, true) == false; }
  void release_parking() { parking = false; }
  void withhold(int64_t n) { pool->withhold(n); }
  void give_back(int64_t n) { pool->give_back(n); }

  overload::CreditPool<overload::PlainCell>* pool = nullptr;
  int64_t granted = 0;
  bool parking = false;
};

class CoreRule {
 public:
  virtual ~CoreRule() = default;
  virtual Nanos interval() const = 0;
  virtual bool parks() const = 0;
  virtual overload::CoreChange change(const overload::CoreSignals& signals) = 0;
  virtual overload::Rest idle(uint32_t core, Nanos polled, CoreHost& host) = 0;
  virtual void resumed(uint32_t core, CoreHost& host) = 0;
};

// Fails with one line on an unknown name or setting.
Result<std::unique_ptr<CoreRule>> make_core_rule(
    std::string_view name, const std::vector<std::pair<std::string, std::string>>& settings,
    uint32_t cores);

}  // namespace rubato::sim
