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
// accesses of two threads that are not ordered by these rules, that is, data races.
//
// The single order S of the seq_cst accesses and fences ([atomics.order] in C++20) is the order in
// which they run. One view, the SC view, holds what S fixes so far: a seq_cst access raises it at
// its own location to the store that it read or wrote, and a seq_cst load reads no older store than
// it says there. Other locations are left alone, so that such an access is no fence. A seq_cst
// fence exchanges its thread's view with the SC view: what one thread has seen before its fence,
// every thread sees after a later one.
//
// wait and notify of an Atomic are those of libstdc++ on a futex: a thread that waits is counted,
// seq_cst, before the kernel compares; a thread that notifies loads the count, seq_cst, and wakes
// nobody if it is 0. So no wake-up is lost if the change before notify is seq_cst too, while a
// weaker one may be seen by neither side. A scenario whose threads all wait has failed.
//
// Not modelled: a load that takes effect after a later store of its thread; a store that takes
// effect before one of its location that ran earlier; an S that contradicts the order in which
// accesses run, which C++20 allows where a location has seq_cst and weaker accesses; fences of
// other orders, and of a seq_cst fence what it does as a release and acquire fence beside relaxed
// accesses (each of the first three hides executions, the last shows some that cannot occur).
//
// Not thread safe: one explore() at a time per thread.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "mechanism/fiber/fiber.h"
#include "mechanism/fiber/sanitizer.h"

namespace rubato::model {

inline constexpr uint32_t kThreadsMax = 4;
inline constexpr uint32_t kLocationsMax = 40;  // atomics, plain cells and threads of one scenario
inline constexpr uint32_t kStepsMax = 10'000;  // atomic accesses of one execution

struct Bounds {
  uint32_t preemptions = 2;           // switches away from a thread that could have gone on
  uint32_t stale_reads = 2;           // loads that see another store than the latest
  uint64_t executions = 20'000'000;   // a scenario that needs more is a failure
};

// Sanitized builds look at fewer executions: the plain build has seen them all, and there each one
// makes and ends fibers that the sanitizer knows.
constexpr Bounds within(uint32_t preemptions, uint32_t stale_reads) {
  if (!sanitizer::kPresent) return {preemptions, stale_reads};
  return {std::min(preemptions, 1u), std::min(stale_reads, 2u)};
}

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
  View& sc_view() { return sc_view_; }
  void fence();                      // sequentially consistent
  void wait();                       // the running thread needs another to go on first
  // A thread between enter_wait and leave_wait counts as waiting; block returns after unblock of
  // the location.
  void enter_wait() { ++waiting_; }
  void leave_wait() { --waiting_; }
  bool anybody_waits() const { return waiting_ > 0; }
  void block(uint32_t location);
  void unblock(uint32_t location, bool all);
  uint32_t running() const { return running_; }
  uint32_t tick();                   // counts the running thread's accesses, in its own view

 private:
  friend class Explorer;
  struct Thread {
    std::function<void()> body;
    std::unique_ptr<Fiber> fiber;
    View view{};
    bool ended = false;
    uint32_t blocked_on = 0;  // a location; 0 = not blocked
    Execution* run = nullptr;
    uint32_t number = 0;
  };

  // Thrown on blocked threads when all threads that are left are blocked.
  struct Forsaken {};

  static void entry(void* argument);
  static bool can_go_on(const Thread& thread);
  void switch_from(uint32_t thread);
  void execute();
  uint32_t pick(bool running_can_go_on);
  uint32_t pick_next();

  class Explorer* explorer_ = nullptr;
  std::vector<std::unique_ptr<Thread>> threads_;
  std::function<void()> check_;
  Fiber scheduler_;
  View setup_view_{};
  View sc_view_{};
  View* view_ = &setup_view_;
  uint32_t running_ = kThreadsMax;  // none: set-up or final check
  uint32_t locations_ = kThreadsMax;  // the first ones count the threads' accesses
  uint32_t preemptions_ = 0;
  uint32_t stale_reads_ = 0;
  uint32_t steps_ = 0;
  uint32_t waiting_ = 0;
  bool forsaken_ = false;  // all threads that were left were blocked
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
  bool seq_cst = false;  // accesses; they acquire and release nevertheless
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
    current_run().step();
    return read(choose(is_sc_load(order)), order);
  }

  void store(T value, std::memory_order order) {
    current_run().step();
    append(value, !kWeaken.stores, order, nullptr);
  }

  bool compare_exchange_strong(T& expected, T desired, std::memory_order success,
                               std::memory_order failure) {
    current_run().step();
    const uint32_t seen = choose(is_sc_load(failure));
    if (seen != latest() && stores_[seen].value != expected) {
      expected = read(seen, failure);
      return false;
    }
    if (stores_.back().value != expected) {
      expected = read(latest(), failure);
      return false;
    }
    replace(desired, success);
    return true;
  }

  T exchange(T value, std::memory_order order) {
    current_run().step();
    return replace(value, order);
  }

  T fetch_add(T value, std::memory_order order) {
    current_run().step();
    return replace(static_cast<T>(stores_.back().value + value), order);
  }
  T fetch_sub(T value, std::memory_order order) {
    return fetch_add(static_cast<T>(T() - value), order);
  }

  bool compare_exchange_weak(T& expected, T desired, std::memory_order order) {
    return compare_exchange_strong(expected, desired, order, order);
  }

  void wait(T old, std::memory_order order) const {
    Execution& run = current_run();
    while (load(order) == old) {
      run.step();
      run.enter_wait();
      // The kernel's look, ordered with its other looks and wake-ups for this location.
      const uint32_t seen = choose(true);
      raise(run.view(), seen);
      if (stores_[seen].value == old) run.block(location_);
      raise(run.view(), run.sc_view()[location_]);
      run.leave_wait();
    }
  }
  void notify_one() { notify(false); }
  void notify_all() { notify(true); }

 private:
  struct Store {
    T value;
    View view;  // the view that an acquiring reader gains
  };

  static bool releases(std::memory_order order) {
    return order == std::memory_order_release || order == std::memory_order_acq_rel ||
           order == std::memory_order_seq_cst;
  }
  static bool acquires(std::memory_order order) {
    return order != std::memory_order_relaxed && order != std::memory_order_release;
  }
  static bool is_sc(std::memory_order order) {
    return order == std::memory_order_seq_cst && !kWeaken.seq_cst;
  }
  static bool is_sc_load(std::memory_order order) { return is_sc(order) && !kWeaken.loads; }

  uint32_t latest() const { return static_cast<uint32_t>(stores_.size() - 1); }
  void raise(View& view, uint32_t index) const {
    view[location_] = std::max(view[location_], index);
  }

  // The store that a load sees.
  uint32_t choose(bool sc) const {
    Execution& run = current_run();
    const uint32_t oldest = sc ? run.sc_view()[location_] : 0;
    return run.choose_store(std::max(run.view()[location_], oldest), latest());
  }

  T read(uint32_t index, std::memory_order order) const;
  T replace(T value, std::memory_order order);
  void append(T value, bool ordered, std::memory_order order, const View* carried);

  void notify(bool all) {
    Execution& run = current_run();
    run.step();
    if (!run.anybody_waits()) return;
    raise(run.sc_view(), run.view()[location_]);
    run.unblock(location_, all);
  }

  uint32_t location_;
  std::vector<Store> stores_;
};

void join(View& view, const View& other);

template <class T, Weaken kWeaken>
T Atomic<T, kWeaken>::read(uint32_t index, std::memory_order order) const {
  Execution& run = current_run();
  raise(run.view(), index);
  if (!kWeaken.loads && acquires(order)) join(run.view(), stores_[index].view);
  if (is_sc_load(order)) raise(run.sc_view(), index);
  return stores_[index].value;
}

template <class T, Weaken kWeaken>
T Atomic<T, kWeaken>::replace(T value, std::memory_order order) {
  const View carried = stores_.back().view;
  const T before = read(latest(), order);
  append(value, !kWeaken.exchanges, order, &carried);
  return before;
}

// `carried` is the view of the release sequence that a read-modify-write continues.
template <class T, Weaken kWeaken>
void Atomic<T, kWeaken>::append(T value, bool ordered, std::memory_order order,
                                const View* carried) {
  Execution& run = current_run();
  raise(run.view(), latest() + 1);
  Store store{value, carried != nullptr ? *carried : View{}};
  if (ordered && releases(order)) join(store.view, run.view());
  stores_.push_back(store);
  if (ordered && is_sc(order)) raise(run.sc_view(), latest());
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
