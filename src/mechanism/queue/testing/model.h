// SPDX-License-Identifier: Apache-2.0
//
// A small model checker for the queues, for tests only. explore() runs a scenario of a few threads
// again and again, each time with another schedule and other values for relaxed loads, until every
// possibility within the bounds has been tried.
//
// The threads of a scenario are fibers on the calling thread; they can be switched before every
// access to a model::Atomic. Memory is modelled by views, after Kang et al., "A Promising Semantics
// for Relaxed-Memory Concurrency" (POPL 2017), without its promises: every store of a location is
// kept; a thread's view is the oldest store of each location that it may still read; a release
// store takes its thread's view with it, an acquire load adds that view to the reader's; a
// read-modify-write continues the release sequence of the store it replaces. model::Plain reports
// accesses of two threads that are not ordered by these rules, that is, data races. A sequentially
// consistent fence exchanges views with all threads that passed one before.
// Not modelled: a load that takes effect after a later store of its thread, seq_cst accesses (they
// count as acquire and release), fences of other orders.
//
// Not thread safe: one explore() at a time per thread.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "mechanism/fiber/fiber.h"

namespace rubato::model {

inline constexpr uint32_t kThreadsMax = 4;
inline constexpr uint32_t kLocationsMax = 40;  // atomics, plain cells and threads of one scenario
inline constexpr uint32_t kStepsMax = 10'000;  // atomic accesses of one execution

struct Bounds {
  uint32_t preemptions = 2;           // switches away from a thread that could have gone on
  uint32_t stale_reads = 2;           // loads that see another store than the latest
  uint64_t executions = 20'000'000;   // a scenario that needs more is a failure
};

struct Report {
  uint64_t executions = 0;
  std::string failure;  // empty = none found; ends with the choices that lead to it
};

// The index of the oldest store that may be read, by location.
using View = std::array<uint32_t, kLocationsMax>;

// One execution of a scenario: the scenario adds threads and a final check to it.
class Execution {
 public:
  void thread(std::function<void()> body);

  // Called after all threads have ended, ordered after all their accesses.
  void finally(std::function<void()> check) { check_ = std::move(check); }

  // Fails the exploration with `what` if `condition` does not hold.
  void expect(bool condition, const char* what);

  // For Atomic and Plain.
  uint32_t new_location();
  void step();                       // the running thread may be preempted here
  uint32_t choose(uint32_t count);   // 0 .. count-1; every value is tried in some execution
  uint32_t choose_store(uint32_t oldest, uint32_t latest);
  View& view() { return *view_; }
  void fence();                      // sequentially consistent
  void wait();                       // the running thread needs another to go on first
  uint32_t running() const { return running_; }
  uint32_t tick();                   // counts the running thread's accesses, in its own view

 private:
  friend class Explorer;
  struct Thread {
    std::function<void()> body;
    std::unique_ptr<Fiber> fiber;
    View view{};
    bool ended = false;
    Execution* run = nullptr;
    uint32_t number = 0;
  };

  static void entry(void* argument);
  void execute();
  void resume(uint32_t thread);
  uint32_t pick(bool running_can_go_on);

  class Explorer* explorer_ = nullptr;
  std::vector<std::unique_ptr<Thread>> threads_;
  std::function<void()> check_;
  Fiber scheduler_;
  View setup_view_{};
  View fence_view_{};  // of all threads that passed a fence
  View* view_ = &setup_view_;
  uint32_t running_ = kThreadsMax;  // none: set-up or final check
  uint32_t locations_ = kThreadsMax;  // the first ones count the threads' accesses
  uint32_t preemptions_ = 0;
  uint32_t stale_reads_ = 0;
  uint32_t steps_ = 0;
};

// The run that the accesses of this moment belong to.
Execution& current_run();

// Tries every execution of `scenario` within `bounds`, or until one fails.
Report explore(const Bounds& bounds, const std::function<void(Execution&)>& scenario);

// Which accesses lose their ordering: for tests that show that the checker would notice.
struct Weaken {
  bool loads = false;
  bool stores = false;
  bool exchanges = false;
  bool fences = false;
};

template <class T, Weaken kWeaken = Weaken{}>
class Atomic {
 public:
  Atomic() : Atomic(T()) {}
  explicit Atomic(T value) : location_(current_run().new_location()) {
    stores_.push_back({value, current_run().view()});
  }
  Atomic(const Atomic&) = delete;

  T load(std::memory_order order) const {
    Execution& run = current_run();
    run.step();
    return read(run.choose_store(run.view()[location_], latest()), order);
  }

  void store(T value, std::memory_order order) {
    current_run().step();
    append(value, !kWeaken.stores && releases(order), nullptr);
  }

  bool compare_exchange_strong(T& expected, T desired, std::memory_order success,
                               std::memory_order failure) {
    Execution& run = current_run();
    run.step();
    const uint32_t seen = run.choose_store(run.view()[location_], latest());
    if (seen != latest() && stores_[seen].value != expected) {
      expected = read(seen, failure);
      return false;
    }
    if (stores_.back().value != expected) {
      expected = read(latest(), failure);
      return false;
    }
    const View carried = stores_.back().view;
    read(latest(), success);
    append(desired, !kWeaken.exchanges && releases(success), &carried);
    return true;
  }

  T fetch_add(T value, std::memory_order order) {
    current_run().step();
    const View carried = stores_.back().view;
    const T before = read(latest(), order);
    append(static_cast<T>(before + value), !kWeaken.exchanges && releases(order), &carried);
    return before;
  }
  T fetch_sub(T value, std::memory_order order) {
    return fetch_add(static_cast<T>(T() - value), order);
  }

  bool compare_exchange_weak(T& expected, T desired, std::memory_order order) {
    return compare_exchange_strong(expected, desired, order, order);
  }

 private:
  struct Store {
    T value;
    View view;  // the view that an acquiring reader gains
  };

  static bool releases(std::memory_order order) {
    return order == std::memory_order_release || order == std::memory_order_acq_rel ||
           order == std::memory_order_seq_cst;
  }

  uint32_t latest() const { return static_cast<uint32_t>(stores_.size() - 1); }

  T read(uint32_t index, std::memory_order order) const;
  void append(T value, bool release, const View* carried);

  uint32_t location_;
  std::vector<Store> stores_;
};

void join(View& view, const View& other);

template <class T, Weaken kWeaken>
T Atomic<T, kWeaken>::read(uint32_t index, std::memory_order order) const {
  View& view = current_run().view();
  view[location_] = std::max(view[location_], index);
  if (order != std::memory_order_relaxed && order != std::memory_order_release) {
    if (!kWeaken.loads) join(view, stores_[index].view);
  }
  return stores_[index].value;
}

// `carried` is the view of the release sequence that a read-modify-write continues.
template <class T, Weaken kWeaken>
void Atomic<T, kWeaken>::append(T value, bool release, const View* carried) {
  View& view = current_run().view();
  view[location_] = latest() + 1;
  Store store{value, carried != nullptr ? *carried : View{}};
  if (release) join(store.view, view);
  stores_.push_back(store);
}

// Memory without atomicity: every two accesses, unless both read, must be ordered.
template <class T>
class Plain {
 public:
  Plain() : location_(current_run().new_location()) {}
  Plain(const Plain&) = delete;

  Plain& operator=(T value) {
    Execution& run = current_run();
    run.expect(run.view()[location_] == writes_, "data race: write after unseen write");
    for (uint32_t thread = 0; thread < kThreadsMax; ++thread) {
      run.expect(run.view()[thread] >= reads_[thread], "data race: write after unseen read");
    }
    run.view()[location_] = ++writes_;
    value_ = value;
    return *this;
  }

  operator T() const {
    Execution& run = current_run();
    run.expect(run.view()[location_] == writes_, "data race: read of an unseen write");
    if (run.running() < kThreadsMax) reads_[run.running()] = run.tick();
    return value_;
  }

 private:
  uint32_t location_;
  uint32_t writes_ = 0;
  mutable std::array<uint32_t, kThreadsMax> reads_{};
  T value_{};
};

// The replacement of StdSync for the queues.
template <Weaken kWeaken = Weaken{}>
struct Sync {
  template <class T>
  using Atomic = model::Atomic<T, kWeaken>;
  template <class T>
  using Plain = model::Plain<T>;
  static void fence() {
    if (!kWeaken.fences) current_run().fence();
  }
  static void wait(uint32_t) { current_run().wait(); }
};

}  // namespace rubato::model
