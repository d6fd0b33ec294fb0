// SPDX-License-Identifier: Apache-2.0
//
// QueueSet<P>: the queues that policy P declares, each of the type that its Sharing and Order need,
// picked at compile time. Built before the workers start, never resized. Which thread may call what
// is the queue's own rule: put on kOwner and kStealable queues by the lane's worker only,
// everything else by all.
#pragma once

#include <array>
#include <atomic>
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

template <Sharing S, Order O>
using QueueFor = std::conditional_t<
    O == Order::kByWord, OrderedQueue<Job*, ByWord>,
    std::conditional_t<
        S == Sharing::kOwner, LocalQueue<Job*>,
        std::conditional_t<S == Sharing::kStealable, StealQueue<Job*>,
                           std::conditional_t<S == Sharing::kManaged, ManagedQueue<Job*>,
                                              MpmcQueue<Job*>>>>>;

// A queue that only its worker takes from and others may put into.
constexpr bool is_pushed(const QueueSpec& spec) {
  return spec.scope == Scope::kPerWorker && spec.sharing == Sharing::kShared;
}

template <Policy P>
inline constexpr bool kPushes = [] {
  for (const QueueSpec& spec : P::kQueues) {
    if (is_pushed(spec)) return true;
  }
  return false;
}();

// Where the policy gives each worker its arrivals and nobody else, nobody takes them in for it.
template <Policy P>
inline constexpr bool kOwnArrivals = P::kQueues[0].scope == Scope::kPerWorker &&
                                     P::kQueues[0].sharing == Sharing::kOwner;

// The lane of the first queue where requests that come in at this worker are put, unless the policy
// says otherwise.
template <Policy P>
uint32_t arrival_lane(const P& policy, WorkerId worker, uint32_t workers) {
  switch (P::kQueues[0].scope) {
    case Scope::kGlobal: return 0;
    case Scope::kPerWorker: return worker.value;
    case Scope::kPerManager: return manager_of(policy, worker, workers).value;
  }
  return 0;
}

template <Policy P>
class QueueSet {
  static constexpr size_t kSpecs = std::span<const QueueSpec>(P::kQueues).size();

 public:
  QueueSet(const P& policy, uint32_t workers, uint32_t inbox_capacity, uint32_t shared_capacity) {
    for (uint32_t spec = 0; spec < kSpecs; ++spec) {
      lanes_[spec] = lanes_of(policy, P::kQueues[spec], workers);
    }
    build(inbox_capacity, shared_capacity, std::make_index_sequence<kSpecs>());
  }

  // Calls f with the queue. The branch on q.spec folds away where the QueueRef is constant.
  template <class F>
  decltype(auto) visit(QueueRef q, F&& f) {
    return visit_from<0>(q, std::forward<F>(f));
  }

  uint32_t depth(QueueRef q) {
    return visit(q, [](auto& queue) { return queue.depth(); });
  }

  // Calls f(QueueRef) for each queue of all workers, or of a manager, in which something waits: a
  // hint.
  template <class F>
  void for_each_waiting(F&& f) {
    for (uint32_t spec = 0; spec < kSpecs; ++spec) {
      if (P::kQueues[spec].scope == Scope::kPerWorker) continue;
      for (uint32_t lane = 0; lane < lanes_[spec]; ++lane) {
        if (depth({spec, lane}) > 0) f(QueueRef{spec, lane});
      }
    }
  }

  // Does more than one request wait in the inbox of some worker, where others may steal?
  bool any_to_steal() {
    if (P::kQueues[0].sharing != Sharing::kStealable) return false;
    for (uint32_t lane = 0; lane < lanes_[0]; ++lane) {
      if (depth({0, lane}) > 1) return true;
    }
    return false;
  }

  // Is there anything that others have put where only this worker takes it?
  bool pushed_to(WorkerId worker) {
    for (uint32_t spec = 0; spec < kSpecs; ++spec) {
      const QueueSpec& queue = P::kQueues[spec];
      if (is_pushed(queue) && depth({spec, worker.value}) > 0) return true;
    }
    return false;
  }

  uint32_t lanes(uint32_t spec) const { return lanes_[spec]; }

  // Of an `aged` queue: when the job arrived that was last at its head, in ns. Relaxed: a hint that
  // orders nothing.
  std::atomic<int64_t>& age(QueueRef q) { return ages_[q.spec][q.lane]; }

 private:
  template <size_t I>
  using Row = std::vector<std::unique_ptr<QueueFor<P::kQueues[I].sharing, P::kQueues[I].order>>>;

  template <size_t... I>
  static auto rows_of(std::index_sequence<I...>) -> std::tuple<Row<I>...>;

  template <size_t... I>
  void build(uint32_t inbox, uint32_t shared, std::index_sequence<I...>) {
    (build_row<I>(inbox, shared), ...);
  }

  template <size_t I>
  void build_row(uint32_t inbox, uint32_t shared) {
    constexpr QueueSpec kSpec = P::kQueues[I];
    const bool per_worker = kSpec.scope == Scope::kPerWorker;
    if (kSpec.aged) ages_[I] = std::vector<std::atomic<int64_t>>(lanes_[I]);
    for (uint32_t lane = 0; lane < lanes_[I]; ++lane) {
      std::get<I>(rows_).push_back(
          std::make_unique<QueueFor<kSpec.sharing, kSpec.order>>(per_worker ? inbox : shared));
    }
  }

  template <size_t I, class F>
  decltype(auto) visit_from(QueueRef q, F&& f) {
    if constexpr (I + 1 == kSpecs) {
      RUBATO_DCHECK(q.spec == I && q.lane < lanes_[I]);
      return f(*std::get<I>(rows_)[q.lane]);
    } else {
      if (q.spec == I) return f(*std::get<I>(rows_)[q.lane]);
      return visit_from<I + 1>(q, std::forward<F>(f));
    }
  }

  decltype(rows_of(std::make_index_sequence<kSpecs>())) rows_;
  std::array<std::vector<std::atomic<int64_t>>, kSpecs> ages_;
  std::array<uint32_t, kSpecs> lanes_{};
};

}  // namespace rubato
