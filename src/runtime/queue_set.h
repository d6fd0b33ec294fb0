// SPDX-License-Identifier: Apache-2.0
//
// QueueSet<P>: the queues that policy P declares, each of the type that its declaration needs,
// picked at compile time. Built before the workers start, never resized. The queue's own rule says
// which thread may call what: only the worker of the index may put into kOwner and kStealable
// queues, all threads may do the rest.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/limits.h"
#include "mechanism/queue/local_queue.h"
#include "mechanism/queue/managed_queue.h"
#include "mechanism/queue/mpmc_queue.h"
#include "mechanism/queue/ordered_queue.h"
#include "mechanism/queue/steal_queue.h"
#include "policy/contract.h"
#include "policy/extensions.h"

namespace rubato {

struct ByWord {
  uint64_t operator()(const Job* job) const { return job->policy_word; }
};

// Of queues that show when their head arrived.
struct ByArrival {
  uint64_t operator()(const Job* job) const { return static_cast<uint64_t>(job->arrived.ns()); }
};

template <bool kAged>
using SharedQueue = std::conditional_t<kAged, MpmcQueue<Job*, StdSync, ByArrival>, MpmcQueue<Job*>>;

template <Sharing S, Order O, bool kAged>
using QueueFor = std::conditional_t<
    O == Order::kByWord, OrderedQueue<Job*, ByWord>,
    std::conditional_t<
        S == Sharing::kOwner, LocalQueue<Job*>,
        std::conditional_t<S == Sharing::kStealable, StealQueue<Job*>,
                           std::conditional_t<S == Sharing::kManaged, ManagedQueue<Job*>,
                                              SharedQueue<kAged>>>>>;

// A queue that shows this key of its head.
template <class Queue, class Key>
concept ShowsKey = std::is_same_v<typename Queue::Key, Key>;

// True for a queue that only its worker takes from and other workers may put into.
constexpr bool is_pushed(const QueueDeclaration& declaration) {
  return declaration.scope == Scope::kPerWorker && declaration.sharing == Sharing::kShared;
}

template <Policy P>
inline constexpr bool kPushes = [] {
  for (const QueueDeclaration& declaration : P::kQueues) {
    if (is_pushed(declaration)) return true;
  }
  return false;
}();

// The index of the first queue where requests that come in at this worker are put, unless the
// policy says otherwise.
template <Policy P>
uint32_t arrival_index(const P& policy, WorkerId worker, uint32_t workers) {
  switch (P::kQueues[0].scope) {
    case Scope::kGlobal: return 0;
    case Scope::kPerWorker: return worker.value;
    case Scope::kPerManager: return manager_of(policy, worker, workers).value;
  }
  return 0;
}

template <Policy P>
class QueueSet {
  static constexpr size_t kDeclarations = std::span<const QueueDeclaration>(P::kQueues).size();

 public:
  QueueSet(const P& policy, uint32_t workers, uint32_t inbox_capacity, uint32_t shared_capacity) {
    for (uint32_t declaration = 0; declaration < kDeclarations; ++declaration) {
      queue_counts_[declaration] = queue_count_of(policy, P::kQueues[declaration], workers);
    }
    build(inbox_capacity, shared_capacity, std::make_index_sequence<kDeclarations>());
  }

  // Calls f with the queue. The branch on q.declaration folds away where the QueueRef is constant.
  template <class F>
  decltype(auto) visit(QueueRef q, F&& f) {
    return visit_from<0>(q, std::forward<F>(f));
  }

  uint32_t depth(QueueRef q) {
    return visit(q, [](auto& queue) { return queue.depth(); });
  }

  // Calls f(QueueRef) for each queue of all workers, or of a manager, in which a request waits: a
  // hint.
  template <class F>
  void for_each_waiting(F&& f) {
    for (uint32_t declaration = 0; declaration < kDeclarations; ++declaration) {
      if (P::kQueues[declaration].scope == Scope::kPerWorker) continue;
      for (uint32_t index = 0; index < queue_counts_[declaration]; ++index) {
        if (depth({declaration, index}) > 0) f(QueueRef{declaration, index});
      }
    }
  }

  // True if a request waits anywhere: a hint.
  bool any_waiting() {
    for (uint32_t declaration = 0; declaration < kDeclarations; ++declaration) {
      for (uint32_t index = 0; index < queue_counts_[declaration]; ++index) {
        if (depth({declaration, index}) > 0) return true;
      }
    }
    return false;
  }

  // True if more than one request waits in an inbox from which other workers may steal.
  bool any_to_steal() {
    if (P::kQueues[0].sharing != Sharing::kStealable) return false;
    for (uint32_t index = 0; index < queue_counts_[0]; ++index) {
      if (depth({0, index}) > 1) return true;
    }
    return false;
  }

  // True if a request waits at this worker that other workers may take.
  bool any_to_take_over(WorkerId worker) {
    for (uint32_t declaration = 0; declaration < kDeclarations; ++declaration) {
      const QueueDeclaration& queue = P::kQueues[declaration];
      if (queue.scope != Scope::kPerWorker || queue.sharing != Sharing::kStealable) continue;
      if (depth({declaration, worker.value}) > 0) return true;
    }
    return false;
  }

  // True if other workers have put a request where only this worker takes it.
  bool pushed_to(WorkerId worker) {
    for (uint32_t declaration = 0; declaration < kDeclarations; ++declaration) {
      const QueueDeclaration& queue = P::kQueues[declaration];
      if (is_pushed(queue) && depth({declaration, worker.value}) > 0) return true;
    }
    return false;
  }

  uint32_t queue_count(uint32_t declaration) const { return queue_counts_[declaration]; }

 private:
  template <size_t I>
  using QueueOf = QueueFor<P::kQueues[I].sharing, P::kQueues[I].order, P::kQueues[I].aged>;
  template <size_t I>
  using Queues = std::vector<std::unique_ptr<QueueOf<I>>>;

  template <size_t... I>
  static auto queues_of_all(std::index_sequence<I...>) -> std::tuple<Queues<I>...>;

  template <size_t... I>
  void build(uint32_t inbox, uint32_t shared, std::index_sequence<I...>) {
    (build_queues<I>(inbox, shared), ...);
  }

  template <size_t I>
  void build_queues(uint32_t inbox, uint32_t shared) {
    constexpr QueueDeclaration kDeclaration = P::kQueues[I];
    const bool per_worker = kDeclaration.scope == Scope::kPerWorker;
    for (uint32_t index = 0; index < queue_counts_[I]; ++index) {
      std::get<I>(queues_).push_back(std::make_unique<QueueOf<I>>(per_worker ? inbox : shared));
    }
  }

  template <size_t I, class F>
  decltype(auto) visit_from(QueueRef q, F&& f) {
    if constexpr (I + 1 == kDeclarations) {
      RUBATO_DCHECK(q.declaration == I && q.index < queue_counts_[I]);
      return f(*std::get<I>(queues_)[q.index]);
    } else {
      if (q.declaration == I) return f(*std::get<I>(queues_)[q.index]);
      return visit_from<I + 1>(q, std::forward<F>(f));
    }
  }

  decltype(queues_of_all(std::make_index_sequence<kDeclarations>())) queues_;
  std::array<uint32_t, kDeclarations> queue_counts_{};
};

}  // namespace rubato
