// SPDX-License-Identifier: Apache-2.0
//
// FiberLocals: the values that <rubato/fiber_local.hpp> keeps for one request, one per key, on
// whichever worker the request runs. The table belongs to the fiber and is emptied when its request
// is sent; a thread that runs no request has a table of its own until it ends. A table is used by
// one request at a time; the functions may be called on every thread.
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
  // Takes ownership of `value`. Requires that the key has no value.
  void set(uint32_t key, void* value, Destroy destroy);

  bool empty() const { return slots_.empty(); }
  // Destroys the values, later keys first; values that their destructors set are destroyed too.
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

// Get and set the values of the calling request, or of the thread if no request calls. Null = the
// key has no value. std::bad_alloc is thrown if memory runs out.
void* fiber_local(uint32_t key);
void set_fiber_local(uint32_t key, void* value, FiberLocals::Destroy destroy);

// Destroys the values of `request`, which is the caller.
void clear_fiber_locals(Request& request);

}  // namespace rubato
