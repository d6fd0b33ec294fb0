// SPDX-License-Identifier: Apache-2.0
//
// CoreKinds: which worker gets a core, or gives one up, where a policy has workers of several kinds
// (policy/contract.h), as one that reserves some of them for short requests. It plans for all
// workers; each kind has cores in proportion, so that of the workers with a core as large a part is
// reserved. Adams' rule of apportionment: no kind gets a second core before each has one.
//
// Pure.
#pragma once

#include <array>
#include <cstdint>

#include "base/limits.h"

namespace rubato::overload {

class CoreKinds {
 public:
  // Called once for each worker.
  void count(uint32_t kind, bool has_core) {
    ++workers_[kind];
    if (has_core) ++cores_[kind];
  }

  // Is the next core due to the one kind rather than to the other? Not where none was counted.
  bool is_due_before(uint32_t kind, uint32_t other) const {
    return workers_[kind] * cores_[other] > workers_[other] * cores_[kind];
  }

  // Did the one kind's last core become due later than the other's? Each has one.
  bool was_due_after(uint32_t kind, uint32_t other) const {
    return workers_[kind] * (cores_[other] - 1) < workers_[other] * (cores_[kind] - 1);
  }

 private:
  std::array<uint32_t, limits::kTypes + 1> workers_{};
  std::array<uint32_t, limits::kTypes + 1> cores_{};
};

}  // namespace rubato::overload
