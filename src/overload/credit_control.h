// SPDX-License-Identifier: Apache-2.0
//
// CreditControl: the rule of credits with exact counts, for a host with one owner (the simulator).
// A live server keeps an account per worker and applies the same rule (overload/admission.h). The
// host owns the sessions; calls with one that is not open are bugs.
#pragma once

#include "overload/credit_pool.h"
#include "overload/credit_rule.h"
#include "overload/drained_sessions.h"

namespace rubato::overload {

class CreditControl {
 public:
  using Pool = CreditPool<PlainCell>;

  CreditControl(const CreditSettings& settings, uint32_t max_cores)
      : settings_(settings), account_{Pool(settings, max_cores), {}, max_cores} {}

  Pool& pool() { return account_.pool; }
  const Pool& pool() const { return account_.pool; }

  // As CreditRule's.
  int64_t open(CreditSession& session, int64_t demand, Instant now) {
    session = CreditSession();
    account_.pool.note_opened();
    return rule().open(session, demand, now);
  }
  void close(CreditSession& session) {
    rule().close(session);
    session = CreditSession();
    account_.pool.note_closed();
  }
  Arrival arrived(CreditSession& session, int64_t demand, Nanos delay) {
    return rule().arrived(session, demand, delay);
  }
  int64_t replied(CreditSession& session, Instant now) { return rule().replied(session, now); }
  int64_t refused(CreditSession& session, Instant now) { return rule().refused(session, now); }
  int64_t note_demand(CreditSession& session, int64_t demand, Instant now) {
    return rule().note_demand(session, demand, now);
  }

  // Grows or shrinks the pool, if it is time, and gives credits that are left to sessions that have
  // none: advertise(session, credit) for each of those. To be called when requests finish and by
  // time, so that a server that finishes none still learns. False: it was not time.
  template <class Advertise>
  bool update(Instant now, Nanos delay, Advertise&& advertise);

  static constexpr int64_t kNoAdvertisement = overload::kNoAdvertisement;

 private:
  struct Account {
    int64_t unissued() const { return pool.unissued(); }
    int64_t spare() const { return pool.spare(); }
    bool few_sessions() const { return pool.sessions() <= max_cores; }
    void note_issued(int64_t change) { pool.note_issued(change); }
    void note_pending(int64_t change) { pool.note_pending(change); }
    void drain(CreditSession& session, Instant now) {
      drained.add(session, session.demand > 0, now);
      pool.note_drained(1);
    }
    void undrain(CreditSession& session) {
      if (drained.remove(session)) pool.note_drained(-1);
    }

    Pool pool;
    DrainedSessions drained;
    int64_t max_cores;
  };
  CreditRule<Account> rule() { return {settings_, account_}; }

  CreditSettings settings_;
  Account account_;
};

template <class Advertise>
bool CreditControl::update(Instant now, Nanos delay, Advertise&& advertise_to_client) {
  if (!account_.pool.update(now, delay)) return false;
  while (account_.pool.unissued() > 0) {
    DrainedEntry* const entry = account_.drained.take(now, settings_.demand_fresh);
    if (entry == nullptr) break;
    account_.pool.note_drained(-1);
    auto& session = static_cast<CreditSession&>(*entry);
    rule().set_credit(session, rule().woken(session.demand));
    advertise_to_client(session, rule().advertise(session, now));
  }
  return true;
}

}  // namespace rubato::overload
