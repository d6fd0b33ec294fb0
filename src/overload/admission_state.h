// SPDX-License-Identifier: Apache-2.0
//
// What Admission (overload/admission.h) keeps of a session and of a worker. A WorkerLedger is
// written by its worker; WorkerCreditAccount show it to CreditRule. Threads: see there.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/limits.h"
#include "base/time.h"
#include "overload/credit_session.h"
#include "overload/credit_settings.h"
#include "overload/marked_sessions.h"

namespace rubato::overload {

inline constexpr size_t kRefusalReasons = 5;

struct AdmissionSettings {
  CreditSettings credits;
  uint32_t workers = 1;
  // The target of long requests; zero = that of others, and eight times their own service among
  // their like. From twice that on they are refused.
  Nanos target_delay_long = Nanos();
};

// A request that the server has, until it is answered.
struct QueuedRequest {
  Instant since;
  Instant seen;              // by arrived()
  int64_t load = 0;          // other requests in service or waiting when it came, about
  int64_t slot = -1;         // of WaitingRequests, while it was not started
  bool underway = false;     // it has started
  bool is_long = false;      // see Admission::classify
  bool refused = false;     // where it arrived
};

template <class Platform>
struct AdmissionSession : CreditSession {
  template <class T>
  using Cell = typename Platform::template Cell<T>;

  explicit AdmissionSession(uint64_t of_flow) : flow(of_flow) {}
  AdmissionSession(const AdmissionSession&) = delete;
  AdmissionSession& operator=(const AdmissionSession&) = delete;

  const uint64_t flow;
  bool open = false;
  Cell<int64_t> drained_demand{-1};  // what it has queued, if it has no credit; else -1
  Cell<int64_t> offer{0};            // credits that it was given while it had none
  Cell<bool> marked{false};          // on a list of marked ones
  AdmissionSession* next_marked = nullptr;
};

// All workers together.
struct LedgerSums {
  int64_t issued = 0;
  int64_t pending = 0;
  int64_t drained = 0;
  int64_t underway = 0;
  int64_t preempted = 0;
  int64_t preempted_ns = 0;
};

// What one worker has counted; the last of them is update()'s own.
template <class Platform>
struct alignas(limits::kCacheLineBytes) WorkerLedger {
  template <class T>
  using Cell = typename Platform::template Cell<T>;

  // Returns what is issued.
  int64_t add_to(LedgerSums& sums) const {
    const int64_t own = issued.load();
    sums.issued += own;
    sums.pending += pending.load();
    sums.drained += drained.load();
    sums.underway += underway.load();
    sums.preempted += preempted.load();
    sums.preempted_ns += preempted_ns.load();
    return own;
  }

  Cell<int64_t> arrivals{0};
  Cell<int64_t> issued{0};
  Cell<int64_t> pending{0};
  Cell<int64_t> drained{0};
  Cell<int64_t> underway{0};
  Cell<int64_t> served{0};
  Cell<int64_t> preempted{0};  // of these, and the service that they had before
  Cell<int64_t> preempted_ns{0};
  std::array<Cell<int64_t>, kRefusalReasons> refused{};
  std::array<std::array<Cell<int64_t>, 2>, kRefusalReasons> refused_by_admission{};
  alignas(limits::kCacheLineBytes) MarkedSessions<Platform, AdmissionSession<Platform>> marked;
  alignas(limits::kCacheLineBytes) Cell<int64_t> limit{0};  // of `issued`; update() writes it
};
// What update() tells all workers.
template <class Platform>
struct alignas(limits::kCacheLineBytes) PublishedAdmission {
  template <class T>
  using Cell = typename Platform::template Cell<T>;

  Cell<int64_t> delay_ns{0};
  Cell<int64_t> due_ns{0};
  Cell<int64_t> spare{1};
  Cell<int64_t> sessions{0};
};

// CreditRule's account of one worker.
template <class Platform>
class WorkerCreditAccount {
 public:
  WorkerCreditAccount(WorkerLedger<Platform>& ledger, const PublishedAdmission<Platform>& published,
              uint32_t cores)
      : ledger_(ledger), published_(published), cores_(cores) {}

  int64_t unissued() const { return ledger_.limit.load() - ledger_.issued.load(); }
  int64_t spare() const { return published_.spare.load(); }
  bool few_sessions() const { return published_.sessions.load() <= cores_; }
  void note_issued(int64_t change) {
    if (change != 0) ledger_.issued.fetch_add(change);
  }
  void note_pending(int64_t change) { ledger_.pending.fetch_add(change); }

  void drain(CreditSession& credits, Instant) {
    auto& session = static_cast<AdmissionSession<Platform>&>(credits);
    if (session.drained_demand.exchange(session.demand) < 0) ledger_.drained.fetch_add(1);
    ledger_.marked.mark(session);
  }
  void undrain(CreditSession& credits) {
    auto& session = static_cast<AdmissionSession<Platform>&>(credits);
    if (session.drained_demand.load() < 0) return;
    if (session.drained_demand.exchange(-1) >= 0) ledger_.drained.fetch_add(-1);
  }

 private:
  WorkerLedger<Platform>& ledger_;
  const PublishedAdmission<Platform>& published_;
  const int64_t cores_;
};

}  // namespace rubato::overload
