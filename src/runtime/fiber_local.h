// SPDX-License-Identifier: Apache-2.0
//
// FiberLocals: what <rubato/fiber_local.hpp> keeps for one request: a value per key, on whichever
// worker the request runs. The table belongs to the fiber and is emptied when its request is sent;
// threads that run no request have one of their own, until they end. A table is used by one request
// at a time; the functions may be called on every thread.
#pragma once

#include <cstdint>
#include <vector>

#include "datapath/request.h"

namespace rubato {

class FiberLocals {
 public:
  using Destroy = void (*)(void* value);

  FiberLocals() = default;
  ~FiberLocals() { clear(); }
  FiberLocals(const FiberLocals&) = delete;
  FiberLocals& operator=(const FiberLocals&) = delete;

  void* get(uint32_t key) const { return key < slots_.size() ? slots_[key].value : nullptr; }
  // Takes `value` over. Requires that the key has none.
  void set(uint32_t key, void* value, Destroy destroy);

  bool empty() const { return slots_.empty(); }
  // Destroys the values, later keys first; what their destructors set is destroyed too.
  void clear();

 private:
  struct Slot {
    void* value = nullptr;
    Destroy destroy = nullptr;
  };
  std::vector<Slot> slots_;
};

// Keys are never given back.
uint32_t new_fiber_local_key();

// The values of the request that calls, else of the thread. They return null and refuse nothing:
// memory that runs out throws std::bad_alloc.
void* fiber_local(uint32_t key);
void set_fiber_local(uint32_t key, void* value, FiberLocals::Destroy destroy);

// The values of `request`, which calls, are destroyed.
void clear_fiber_locals(Request& request);

}  // namespace rubato
