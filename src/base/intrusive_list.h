// SPDX-License-Identifier: Apache-2.0
//
// IntrusiveList: a list of items that have their links in themselves, so that it never allocates
// and any item leaves it in constant time. Borrows the items. Plain memory of its owner.
#pragma once

#include "base/check.h"

namespace rubato {

template <class T>
struct ListLinks {
  T* next = nullptr;
  T* previous = nullptr;
  bool listed = false;
};

template <class T, ListLinks<T> T::*kLinks>
class IntrusiveList {
 public:
  bool empty() const { return first_ == nullptr; }
  T* first() const { return first_; }
  static T* next(const T& item) { return (item.*kLinks).next; }
  static bool has(const T& item) { return (item.*kLinks).listed; }

  void push_back(T& item) {
    RUBATO_DCHECK(!has(item));
    item.*kLinks = {nullptr, last_, true};
    (last_ != nullptr ? (last_->*kLinks).next : first_) = &item;
    last_ = &item;
  }

  // Requires that the item is in this list.
  void erase(T& item) {
    RUBATO_DCHECK(has(item));
    ListLinks<T>& links = item.*kLinks;
    (links.previous != nullptr ? (links.previous->*kLinks).next : first_) = links.next;
    (links.next != nullptr ? (links.next->*kLinks).previous : last_) = links.previous;
    links = {};
  }

  // Null = it is empty.
  T* pop_front() {
    T* const item = first_;
    if (item != nullptr) erase(*item);
    return item;
  }

 private:
  T* first_ = nullptr;
  T* last_ = nullptr;
};

}  // namespace rubato
