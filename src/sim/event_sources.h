// SPDX-License-Identifier: Apache-2.0
//
// EventSources: the numbers by which the parts of a run stand in its EventQueue. Of events at the
// same time the lower number is first: workers, arrivals, the policy's slow path, managers, the
// control of cores, help at rings, stalls. A plain value.
#pragma once

#include <cstdint>

#include "base/ids.h"

namespace rubato::sim {

class EventSources {
 public:
  constexpr EventSources(uint32_t workers, uint32_t managers, bool elastic, bool helps, bool stalls)
      : workers_(workers),
        managers_(managers),
        elastic_(elastic),
        helps_(helps),
        stalls_(stalls) {}

  // A worker's number is its own.
  constexpr bool is_worker(uint32_t source) const { return source < workers_; }
  constexpr uint32_t arrivals() const { return workers_; }
  constexpr uint32_t adapt() const { return workers_ + 1; }
  constexpr uint32_t manager(ManagerId id) const { return workers_ + 2 + id.value; }
  constexpr bool is_manager(uint32_t source) const { return source > adapt() && source < cores(); }
  // Requires is_manager(source).
  constexpr ManagerId manager_of(uint32_t source) const { return {source - workers_ - 2}; }
  constexpr uint32_t cores() const { return workers_ + 2 + managers_; }  // if elastic
  constexpr uint32_t helps() const { return cores() + (elastic_ ? 1 : 0); }  // if idle workers help
  constexpr uint32_t stalls() const { return helps() + (helps_ ? 1 : 0); }   // if there are any
  constexpr uint32_t count() const { return stalls() + (stalls_ ? 1 : 0); }

 private:
  uint32_t workers_;
  uint32_t managers_;
  bool elastic_;
  bool helps_;
  bool stalls_;
};

}  // namespace rubato::sim
