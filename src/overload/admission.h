// SPDX-License-Identifier: Apache-2.0
//
// Admission: the live host of CreditRule, for a server of many workers. What a session may have is
// decided by the flow's owner of the moment from the account of its own worker; how many credits
// there are, by update(), which one at a time runs every so often (Breakwater's split of per-core
// credits and a slow global loop, in the published code).
//
//   arrived, classify, started, replied, dropped, note_demand, take_offer, withdraw
//       the path of a request: no lock; writes the session, and lines of `worker`. Any thread;
//       cheap if `worker` is the calling one, right in any case.
//   open, close, update, delay
//       under the lock.
//
// update() adds the workers' accounts up, measures how long requests wait, grows or shrinks the
// pool, and publishes: the delay, and for each worker a limit up to which it may issue credits. The
// limits together are the pool's total, so nothing is given twice.
//
// A session that was told zero is *marked*: put on a list of its worker's, for update() to collect.
// When there are credits again update() makes an *offer* and returns the flow, for the caller to
// notify; the flow's owner takes the offer up. Which comes first, a request of the session or the
// offer, is decided by one exchange of `drained_demand`.
//
// Ordering: all cells are sequentially consistent; the plain fields of a session belong to its
// flow's owner, its DrainedEntry and what is below it to the lock.
//
// A Platform has Cell<T> (see waiting_requests.h) and a Mutex with lock, unlock and try_lock.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/limits.h"
#include "overload/admission_state.h"
#include "overload/credit_limits.h"
#include "overload/credit_pool.h"
#include "overload/credit_rule.h"
#include "overload/drained_sessions.h"
#include "overload/preempted_delay.h"
#include "overload/waiting_requests.h"

namespace rubato::overload {

template <class Platform>
class Admission {
 public:
  using Session = AdmissionSession<Platform>;
  using Pool = CreditPool<typename Platform::template Cell<int64_t>>;
  static constexpr size_t kReasons = kRefusalReasons;

  explicit Admission(const AdmissionSettings& settings);

  // Returns the credit to tell.
  int64_t open(uint32_t worker, Session& session, uint32_t demand, Instant now);
  // Does nothing to one that is not open.
  void close(uint32_t worker, Session& session);

  // A request came, which waits since `since`. If it is to be served it waits on until started(),
  // dropped() or replied(); else dropped() must follow.
  Arrival arrived(uint32_t worker, Session& session, QueuedRequest& request, uint32_t demand,
                  Instant since, Instant now);
  // The host has looked at what came: the request is long, or not. Before started() or dropped().
  void classify(uint32_t worker, QueuedRequest& request, bool is_long);
  // It is first given to a worker. False: it has waited for too long, dropped() must follow.
  bool started(uint32_t worker, QueuedRequest& request, Instant now);
  // It is done. `in_slices` is the service it had before it was preempted last, 0 = it never was.
  // Returns the credit to tell with the answer, 0 if the session is over.
  int64_t replied(uint32_t worker, Session& session, QueuedRequest& request, Nanos in_slices,
                  Instant now);
  int64_t refused(uint32_t worker, Session& session, QueuedRequest& request, size_t reason,
                  Instant now);
  // It will not be answered: its session ends.
  void withdraw(uint32_t worker, QueuedRequest& request);
  // The client says what it has queued. Returns the credit that it was told last.
  int64_t note_demand(uint32_t worker, Session& session, uint32_t demand, Instant now);
  // The credit to tell to a session that was offered some, or kNoAdvertisement.
  int64_t take_offer(uint32_t worker, Session& session, Instant now);

  // It is time for update(): reads one published word.
  bool is_due(Instant now) const { return now.ns() >= published_.due_ns.load(); }
  // Offers credits to at most `offered.size()` sessions, and returns how many: their flows are to
  // be notified. try_update gives up while another thread updates.
  uint32_t update(Instant now, std::span<uint64_t> offered);
  uint32_t try_update(Instant now, std::span<uint64_t> offered);

  // How long the oldest request that was not started has waited; or, if that is longer, how long
  // those that were preempted wait for each other, measured by a target of their own. The latter of
  // both is as of the last update().
  Nanos delay(Instant now);
  Nanos published_delay() const { return Nanos(published_.delay_ns.load()); }

  const Pool& pool() const { return pool_; }
  Pool& pool() { return pool_; }

  // Since the start, of all workers. Any thread.
  struct Counts {
    uint64_t served = 0;
    std::array<uint64_t, kReasons> refused{};
    // The part of these that admission refused by itself, without the host, by class (short first).
    std::array<std::array<uint64_t, 2>, kReasons> refused_by_admission{};
  };
  Counts counts() const;

 private:
  template <class T>
  using Cell = typename Platform::template Cell<T>;

  static constexpr Nanos kUpdatePerWorker = Nanos::micros(1);  // as update() reads lines of each
  static constexpr int64_t kSlotsUntilRefusal = 16;
  using Ledger = WorkerLedger<Platform>;
  using Account = WorkerCreditAccount<Platform>;

  class Lock {
   public:
    explicit Lock(typename Platform::Mutex& mutex) : mutex_(mutex) { mutex_.lock(); }
    ~Lock() { mutex_.unlock(); }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

   private:
    typename Platform::Mutex& mutex_;
  };

  uint32_t workers() const { return settings_.workers; }
  bool in_long_class(const QueuedRequest& request) const {
    return request.is_long && settings_.target_delay_long > Nanos();
  }
  void wait(uint32_t worker, QueuedRequest& request);
  void stop_waiting(uint32_t worker, QueuedRequest& request);
  void leave(uint32_t worker, QueuedRequest& request);
  Account account_of(uint32_t worker) { return {ledgers_[worker], published_, workers()}; }
  CreditRule<Account> rule(Account& account) { return {settings_.credits, account}; }
  void accept_offer(Account& account, Session& session);

  uint32_t update_locked(Instant now, std::span<uint64_t> offered);
  LedgerSums sum();
  void collect_marked(Instant now);
  Nanos measure(Instant now);
  uint32_t offer(Instant now, std::span<uint64_t> offered);
  void publish(Instant now, Nanos delay);
  void note_active();
  void set_limits();

  const AdmissionSettings settings_;
  PublishedAdmission<Platform> published_;
  std::vector<Ledger> ledgers_;
  std::array<WaitingRequests<Platform>, 2> waiting_;  // long ones apart if they have a target
  Pool pool_;
  typename Platform::Mutex mutex_;  // guards what follows, and what of pool_ is for one at a time
  DrainedSessions drained_;
  std::vector<int64_t> issued_;    // by worker, when they were added up
  std::vector<int64_t> arrivals_;  // the same
  std::vector<uint32_t> active_;   // workers that requests came to since
  CreditLimits limits_;
  PreemptedDelay preempted_;
};

template <class Platform>
Admission<Platform>::Admission(const AdmissionSettings& settings)
    : settings_(settings),
      ledgers_(settings.workers + 1),
      waiting_{WaitingRequests<Platform>(settings.workers,
                                         settings.credits.refuse_delay / kSlotsUntilRefusal),
               WaitingRequests<Platform>(settings.workers,
                                         std::max(settings.target_delay_long * 2,
                                                  settings.credits.refuse_delay) /
                                             kSlotsUntilRefusal)},
      pool_(settings.credits, settings.workers),
      issued_(settings.workers),
      arrivals_(settings.workers) {
  active_.reserve(settings.workers);
  set_limits();
}

// A credit that is left is its, whatever worker it would fall to.
template <class Platform>
int64_t Admission<Platform>::open(uint32_t worker, Session& session, uint32_t demand, Instant now) {
  const Lock lock(mutex_);
  static_cast<CreditSession&>(session) = CreditSession();
  session.open = true;
  pool_.note_opened();
  published_.sessions.store(pool_.sessions());
  sum();
  Ledger& ledger = ledgers_[worker];
  ledger.limit.store(issued_[worker] + pool_.unissued());
  Account account = account_of(worker);
  const int64_t credit = rule(account).open(session, demand, now);
  sum();
  set_limits();
  return credit;
}

template <class Platform>
void Admission<Platform>::close(uint32_t worker, Session& session) {
  if (!session.open) return;
  const Lock lock(mutex_);
  collect_marked(Instant());
  drained_.remove(session);
  Account account = account_of(worker);
  accept_offer(account, session);
  rule(account).close(session);
  session.open = false;
  pool_.note_closed();
  published_.sessions.store(pool_.sessions());
  sum();
  set_limits();
}

template <class Platform>
Arrival Admission<Platform>::arrived(uint32_t worker, Session& session, QueuedRequest& request,
                                     uint32_t demand, Instant since, Instant now) {
  Account account = account_of(worker);
  RUBATO_DCHECK(worker < settings_.workers);
  accept_offer(account, session);
  ledgers_[worker].arrivals.fetch_add(1);
  const Arrival arrival = rule(account).arrived(session, demand, published_delay());
  request = {.since = since,
             .seen = now,
             .load = pool_.pending(),
             .refused = arrival != Arrival::kServe};
  if (!request.refused) wait(worker, request);
  return arrival;
}

template <class Platform>
void Admission<Platform>::classify(uint32_t worker, QueuedRequest& request, bool is_long) {
  if (request.is_long == is_long) return;
  const bool waits = request.slot != WaitingRequests<Platform>::kUncounted;
  stop_waiting(worker, request);
  request.is_long = is_long;
  if (waits) wait(worker, request);
}

template <class Platform>
void Admission<Platform>::wait(uint32_t worker, QueuedRequest& request) {
  request.slot = waiting_[in_long_class(request) ? 1 : 0].add(worker, request.since, request.seen);
}

template <class Platform>
void Admission<Platform>::stop_waiting(uint32_t worker, QueuedRequest& request) {
  const int64_t slot = std::exchange(request.slot, WaitingRequests<Platform>::kUncounted);
  waiting_[in_long_class(request) ? 1 : 0].remove(worker, slot);
}

// The delay of the others has shrunk with this one's start, so its own is what is judged.
template <class Platform>
bool Admission<Platform>::started(uint32_t worker, QueuedRequest& request, Instant now) {
  stop_waiting(worker, request);
  const Nanos drop = in_long_class(request) ? settings_.target_delay_long * 2
                                    : settings_.credits.refuse_delay;
  if (!Aqm{drop}.serves(now - request.since)) return false;
  RUBATO_DCHECK(!request.underway);  // a request starts once
  request.underway = true;
  ledgers_[worker].underway.fetch_add(1);
  return true;
}

template <class Platform>
void Admission<Platform>::leave(uint32_t worker, QueuedRequest& request) {
  stop_waiting(worker, request);
  if (std::exchange(request.underway, false)) ledgers_[worker].underway.fetch_add(-1);
}

template <class Platform>
int64_t Admission<Platform>::replied(uint32_t worker, Session& session, QueuedRequest& request,
                                     Nanos in_slices, Instant now) {
  leave(worker, request);
  Ledger& ledger = ledgers_[worker];
  ledger.served.fetch_add(1);
  if (in_slices > Nanos()) {
    ledger.preempted.fetch_add(1);
    ledger.preempted_ns.fetch_add(in_slices.count());
  }
  if (!session.open) return 0;
  Account account = account_of(worker);
  accept_offer(account, session);
  return rule(account).replied(session, now);
}

template <class Platform>
int64_t Admission<Platform>::refused(uint32_t worker, Session& session, QueuedRequest& request,
                                     size_t reason, Instant now) {
  leave(worker, request);
  Ledger& ledger = ledgers_[worker];
  RUBATO_DCHECK(reason < kReasons);
  ledger.refused[reason].fetch_add(1);
  if (request.refused) ledger.refused_by_admission[reason][request.is_long ? 1 : 0].fetch_add(1);
  if (!session.open) return 0;
  Account account = account_of(worker);
  accept_offer(account, session);
  return rule(account).refused(session, now);
}

template <class Platform>
void Admission<Platform>::withdraw(uint32_t worker, QueuedRequest& request) {
  leave(worker, request);
}

template <class Platform>
int64_t Admission<Platform>::note_demand(uint32_t worker, Session& session, uint32_t demand,
                                      Instant now) {
  Account account = account_of(worker);
  accept_offer(account, session);
  rule(account).note_demand(session, demand, now);
  return session.advertised;
}

template <class Platform>
int64_t Admission<Platform>::take_offer(uint32_t worker, Session& session, Instant now) {
  if (!session.open || session.offer.load() == 0) return kNoAdvertisement;
  Account account = account_of(worker);
  accept_offer(account, session);
  return rule(account).advertise(session, now);
}

// It is issued already. A session that was drained once more since is no longer.
template <class Platform>
void Admission<Platform>::accept_offer(Account& account, Session& session) {
  if (session.offer.load() == 0) return;
  account.undrain(session);
  session.credit += session.offer.exchange(0);
}

template <class Platform>
uint32_t Admission<Platform>::update(Instant now, std::span<uint64_t> offered) {
  const Lock lock(mutex_);
  return update_locked(now, offered);
}

template <class Platform>
uint32_t Admission<Platform>::try_update(Instant now, std::span<uint64_t> offered) {
  if (!mutex_.try_lock()) return 0;
  const uint32_t count = update_locked(now, offered);
  mutex_.unlock();
  return count;
}

template <class Platform>
uint32_t Admission<Platform>::update_locked(Instant now, std::span<uint64_t> offered) {
  preempted_.learn(sum());
  collect_marked(now);
  note_active();
  const Nanos delay = measure(now);
  const uint32_t count = pool_.update(now, delay) ? offer(now, offered) : 0;
  publish(now, delay);
  return count;
}

template <class Platform>
LedgerSums Admission<Platform>::sum() {
  LedgerSums sums;
  for (uint32_t w = 0; w <= workers(); ++w) {
    const int64_t issued = ledgers_[w].add_to(sums);
    if (w < workers()) issued_[w] = issued;
  }
  pool_.set_counts(sums.issued, sums.pending, sums.drained);
  return sums;
}

template <class Platform>
void Admission<Platform>::collect_marked(Instant now) {
  for (uint32_t w = 0; w < workers(); ++w) {
    ledgers_[w].marked.take_all([&](Session& session) {
      drained_.remove(session);
      const int64_t demand = session.drained_demand.load();
      if (demand >= 0) drained_.add(session, demand > 0, now);
    });
  }
}

template <class Platform>
Nanos Admission<Platform>::measure(Instant now) {
  const Nanos target = settings_.credits.target_delay;
  return std::max({waiting_[0].oldest(now), preempted_.delay(settings_, workers()),
                   in_terms_of(target, waiting_[1].oldest(now), settings_.target_delay_long)});
}

// In the name of update() itself, which may issue all that is left.
template <class Platform>
uint32_t Admission<Platform>::offer(Instant now, std::span<uint64_t> offered) {
  uint32_t count = 0;
  Ledger& own = ledgers_[workers()];
  Account account = account_of(workers());
  published_.spare.store(pool_.spare());
  while (pool_.unissued() > 0 && count < offered.size()) {
    DrainedEntry* const entry = drained_.take(now, settings_.credits.demand_fresh);
    if (entry == nullptr) break;
    auto& session = static_cast<Session&>(static_cast<CreditSession&>(*entry));
    const int64_t demand = session.drained_demand.exchange(-1);
    if (demand < 0) continue;  // a request of it came first
    own.drained.fetch_add(-1);
    pool_.note_drained(-1);
    own.limit.store(own.issued.load() + pool_.unissued());
    const int64_t credit = rule(account).woken(demand);
    own.issued.fetch_add(credit);
    pool_.note_issued(credit);
    session.offer.fetch_add(credit);
    offered[count++] = session.flow;
  }
  return count;
}

template <class Platform>
void Admission<Platform>::publish(Instant now, Nanos delay) {
  const Nanos pause = std::max(settings_.credits.update_every, kUpdatePerWorker * workers());
  published_.delay_ns.store(delay.count());
  published_.due_ns.store((now + pause).ns());
  published_.spare.store(pool_.spare());
  set_limits();
}

// Credits that are left are for those that requests came to lately; where none did, for all.
template <class Platform>
void Admission<Platform>::note_active() {
  active_.clear();
  for (uint32_t w = 0; w < workers(); ++w) {
    const int64_t arrivals = ledgers_[w].arrivals.load();
    if (std::exchange(arrivals_[w], arrivals) != arrivals) active_.push_back(w);
  }
}

template <class Platform>
void Admission<Platform>::set_limits() {
  const std::vector<int64_t>& limits = limits_.of(pool_.unissued(), issued_, active_);
  for (uint32_t w = 0; w < workers(); ++w) ledgers_[w].limit.store(limits[w]);
}

template <class Platform>
Nanos Admission<Platform>::delay(Instant now) {
  const Lock lock(mutex_);
  preempted_.learn(sum());
  return measure(now);
}

template <class Platform>
Admission<Platform>::Counts Admission<Platform>::counts() const {
  Counts all;
  const auto add = [](uint64_t& to, const Cell<int64_t>& cell) {
    to += static_cast<uint64_t>(cell.load());
  };
  for (const Ledger& ledger : ledgers_) {
    add(all.served, ledger.served);
    for (size_t reason = 0; reason < kReasons; ++reason) {
      add(all.refused[reason], ledger.refused[reason]);
      for (size_t c = 0; c < 2; ++c) {
        add(all.refused_by_admission[reason][c], ledger.refused_by_admission[reason][c]);
      }
    }
  }
  return all;
}

}  // namespace rubato::overload
