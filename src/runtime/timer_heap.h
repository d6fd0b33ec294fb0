// SPDX-License-Identifier: Apache-2.0
//
// TimerHeap: items in the order of their deadlines, with their links in themselves, so that arming
// a timer never allocates. A pairing heap (Fredman, Sedgewick, Sleator and Tarjan, Algorithmica
// 1986): push takes constant time, pop and erase logarithmic time on average. Borrows the items.
// Plain memory of its owner.
#pragma once

#include <utility>

#include "base/check.h"
#include "base/time.h"

namespace rubato {

template <class T>
struct TimerLinks {
  Instant deadline = Instant::never();
  T* child = nullptr;     // the first of those that are not earlier
  T* sibling = nullptr;   // the next child of the same parent
  T* previous = nullptr;  // the sibling before, or the parent
  bool armed = false;
};

template <class T, TimerLinks<T> T::*kLinks>
class TimerHeap {
 public:
  bool empty() const { return root_ == nullptr; }
  T* first() const { return root_; }
  Instant next() const { return root_ == nullptr ? Instant::never() : of(*root_).deadline; }
  static bool has(const T& item) { return (item.*kLinks).armed; }

  void push(T& item, Instant deadline) {
    RUBATO_DCHECK(!has(item));
    item.*kLinks = {deadline, nullptr, nullptr, nullptr, true};
    root_ = meld(root_, &item);
  }

  // Requires that the item is in this heap.
  void erase(T& item) {
    RUBATO_DCHECK(has(item));
    if (&item == root_) {
      root_ = merge(of(item).child);
    } else {
      cut(item);
      root_ = meld(root_, merge(of(item).child));
    }
    item.*kLinks = {};
  }

 private:
  static TimerLinks<T>& of(T& item) { return item.*kLinks; }
  static const TimerLinks<T>& of(const T& item) { return item.*kLinks; }

  // Both are roots, or null.
  static T* meld(T* a, T* b) {
    if (a == nullptr || b == nullptr) return a == nullptr ? b : a;
    if (of(*b).deadline < of(*a).deadline) std::swap(a, b);
    TimerLinks<T>& parent = of(*a);
    of(*b).sibling = parent.child;
    of(*b).previous = a;
    if (parent.child != nullptr) of(*parent.child).previous = b;
    parent.child = b;
    return a;
  }

  static void cut(T& item) {
    const TimerLinks<T>& links = of(item);
    TimerLinks<T>& before = of(*links.previous);
    (before.child == &item ? before.child : before.sibling) = links.sibling;
    if (links.sibling != nullptr) of(*links.sibling).previous = links.previous;
  }

  static T* detach(T* item) {
    of(*item).sibling = of(*item).previous = nullptr;
    return item;
  }

  // The siblings become one heap: melded in pairs from the left, and those from the right.
  static T* merge(T* first) {
    T* pairs = nullptr;
    while (first != nullptr) {
      T* const second = of(*first).sibling;
      T* const rest = second != nullptr ? of(*second).sibling : nullptr;
      T* const pair = meld(detach(first), second != nullptr ? detach(second) : nullptr);
      of(*pair).sibling = std::exchange(pairs, pair);
      first = rest;
    }
    T* whole = nullptr;
    while (pairs != nullptr) {
      T* const next = of(*pairs).sibling;
      whole = meld(whole, detach(pairs));
      pairs = next;
    }
    return whole;
  }

  T* root_ = nullptr;
};

}  // namespace rubato
