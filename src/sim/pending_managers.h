// SPDX-License-Identifier: Apache-2.0
//
// PendingManagers: the managers that something happened to, each once, until their next step. One
// owner.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"

namespace rubato::sim {

class PendingManagers {
 public:
  explicit PendingManagers(uint32_t managers) : is_pending_(managers) {}

  bool empty() const { return stack_.empty(); }
  void add(ManagerId manager) {
    if (is_pending_[manager.value] != 0) return;
    is_pending_[manager.value] = 1;
    stack_.push_back(manager);
  }
  // The one that was added last. Requires !empty().
  ManagerId take() {
    const ManagerId manager = stack_.back();
    stack_.pop_back();
    is_pending_[manager.value] = 0;
    return manager;
  }

 private:
  std::vector<uint8_t> is_pending_;  // by manager
  std::vector<ManagerId> stack_;
};

}  // namespace rubato::sim
