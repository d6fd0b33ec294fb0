// SPDX-License-Identifier: Apache-2.0
//
// Lent<T>: an object that its owner replaces while other threads, and signal handlers, use it. Who
// uses it neither waits nor locks; the owner waits for those who may still use the old one, so a
// use is short. For rare uses: each writes a word that all share.
//
// Memory order: sequential consistency throughout. A user counts itself and then reads the pointer;
// the owner replaces the pointer and then reads the count: either the owner sees the user, or the
// user sees the new object. The count at which a user leaves is what the owner reads before it
// destroys what was used, and what its wait ends with.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "mechanism/queue/sync.h"

namespace rubato {

template <class T, class Sync = StdSync>
class Lent {
 public:
  explicit Lent(std::unique_ptr<T> first) : owned_(std::move(first)), lent_(owned_.get()) {}

  // Any thread: f(T&).
  template <class F>
  auto use(F&& f) const {
    const Use use(users_);
    return f(*lent_.load(kOrder));
  }

  // The owner's own, of which it alone decides how long it stays.
  T& owned() const { return *owned_; }

  // The owner: the old one is destroyed when nobody uses it any more.
  void replace(std::unique_ptr<T> next) {
    lent_.store(next.get(), kOrder);
    for (uint32_t users = users_.load(kOrder); users != 0; users = users_.load(kOrder)) {
      users_.wait(users, kOrder);
    }
    owned_ = std::move(next);
  }

 private:
  static constexpr std::memory_order kOrder = std::memory_order_seq_cst;
  using Users = typename Sync::template Atomic<uint32_t>;

  class Use {
   public:
    explicit Use(Users& users) : users_(users) { users_.fetch_add(1, kOrder); }
    ~Use() {
      if (users_.fetch_sub(1, kOrder) == 1) users_.notify_one();
    }

   private:
    Users& users_;
  };

  mutable Users users_{};
  std::unique_ptr<T> owned_;
  typename Sync::template Atomic<T*> lent_;
};

}  // namespace rubato
