// SPDX-License-Identifier: Apache-2.0
//
// PushList: a list to which any thread pushes items and which one thread takes whole. Borrows the
// items, which have a pointer `next_in_list`. Lock-free: push releases, take_all acquires, and
// since no item is popped singly there is no ABA.
#pragma once

#include <atomic>
#include <utility>

#include "mechanism/queue/sync.h"

namespace rubato {

// Sync: see mechanism/queue/sync.h.
template <class T, class Sync = StdSync>
class PushList {
 public:
  // True = the list was empty.
  bool push(T& item) {
    T* head = head_.load(std::memory_order_relaxed);
    do {
      item.next_in_list = head;
    } while (!head_.compare_exchange_weak(head, &item, std::memory_order_release));
    return head == nullptr;
  }
  // The item pushed last comes first.
  T* take_all() {
    if (empty()) return nullptr;
    return head_.exchange(nullptr, std::memory_order_acquire);
  }
  // The item pushed first comes first.
  T* take_all_in_order() {
    T* in_order = nullptr;
    for (T* item = take_all(); item != nullptr;) {
      T* const next = std::exchange(item->next_in_list, in_order);
      in_order = std::exchange(item, next);
    }
    return in_order;
  }
  bool empty() const { return head_.load(std::memory_order_relaxed) == nullptr; }

 private:
  typename Sync::template Atomic<T*> head_{nullptr};
};

}  // namespace rubato
