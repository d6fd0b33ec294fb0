// SPDX-License-Identifier: Apache-2.0
//
// Agenda: what is to happen in a world beside the events of its servers, by time; of equal times in
// the order in which it was put down. And Slots, a pool whose entries are named by a number and a
// generation, so that an event for one that is gone is known as such. Plain values, one owner.
#pragma once

#include <cstdint>
#include <queue>
#include <vector>

#include "base/check.h"
#include "base/time.h"

namespace rubato::fleet {

struct SlotName {
  uint32_t index = UINT32_MAX;
  uint32_t generation = 0;

  friend bool operator==(const SlotName&, const SlotName&) = default;
};

// T::begin() makes an entry as good as new.
template <class T>
class Slots {
 public:
  // References to others stay valid only until then.
  SlotName take() {
    if (free_.empty()) {
      free_.push_back(static_cast<uint32_t>(slots_.size()));
      slots_.emplace_back();
    }
    const uint32_t index = free_.back();
    free_.pop_back();
    slots_[index].value.begin();
    return {index, slots_[index].generation};
  }
  void give_back(SlotName name) {
    RUBATO_DCHECK(find(name) != nullptr);
    ++slots_[name.index].generation;
    free_.push_back(name.index);
  }
  // Null = it is gone.
  T* find(SlotName name) {
    Slot& slot = slots_[name.index];
    return slot.generation == name.generation ? &slot.value : nullptr;
  }
  // Requires one that is not gone.
  T& at(SlotName name) {
    RUBATO_DCHECK(find(name) != nullptr);
    return slots_[name.index].value;
  }

 private:
  struct Slot {
    T value;
    uint32_t generation = 0;
  };

  std::vector<Slot> slots_;
  std::vector<uint32_t> free_;
};

enum class Happening : uint8_t {
  kCall,      // an open group makes its next call: number = group
  kUserCall,  // a user has thought enough: number = group, other = user
  kArrive,    // an attempt reaches its server
  kAnswer,    // an attempt's answer reaches its client; other = sim::Fate
  kTimeout,   // the client waits no longer for the attempt
  kCancel,    // its server hears of that
  kRetry,     // a request has waited before its next attempt
  kHedge,     // a request may get a copy
  kProbe,     // a probe reaches a server: number = server, other = balancer
  kProbed,    // its answer reaches the balancer; generation = requests in flight there
  kLook,      // weights and percentiles are renewed
};

struct Appointment {
  Instant at;
  Happening what = Happening::kLook;
  uint32_t number = 0, generation = 0, other = 0;
  Nanos latency;  // of kProbed
};

class Agenda {
 public:
  void put(const Appointment& appointment) { waiting_.push({appointment, order_++}); }
  Instant first() const { return waiting_.empty() ? Instant::never() : waiting_.top().what.at; }
  // Requires one.
  Appointment take() {
    const Appointment first = waiting_.top().what;
    waiting_.pop();
    return first;
  }

 private:
  struct Entry {
    Appointment what;
    uint64_t order;
    bool operator<(const Entry& other) const {
      return what.at != other.what.at ? what.at > other.what.at : order > other.order;
    }
  };

  std::priority_queue<Entry> waiting_;
  uint64_t order_ = 0;
};

}  // namespace rubato::fleet
