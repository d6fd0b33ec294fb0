// SPDX-License-Identifier: Apache-2.0
//
// CreditControl: who may send how many requests (CoreSync III-A and III-C; where the paper is
// silent, the published code of its overload control, Breakwater's).
//
// Credits are absolute: a client that was told n may have n requests underway. Every reply carries
// the number. A session without a request at the server is told by a message of its own, and only
// when it gets more. The host calls everything here under one lock, but for pool(), of which see
// overload/credit_pool.h; it owns the sessions. Calls with a session that is not open are bugs.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"
#include "overload/aqm.h"
#include "overload/credit_pool.h"
#include "overload/credit_session.h"
#include "overload/credit_settings.h"
#include "overload/drained_sessions.h"

namespace rubato::overload {

enum class Arrival : uint8_t {
  kServe,
  kDropLate,        // the oldest request has waited for longer than D_drop
  kDropUncredited,  // the client sent more than it was ever allowed
};

template <class Cell>
class CreditControl {
 public:
  CreditControl(const CreditSettings& settings, uint32_t max_cores)
      : settings_(settings), max_cores_(max_cores), pool_(settings, max_cores) {}

  CreditPool<Cell>& pool() { return pool_; }
  const CreditPool<Cell>& pool() const { return pool_; }

  // A client is there, with `demand` requests queued. It may send one with the message that opens
  // the session. Returns its credit, to be told.
  int64_t open(CreditSession& session, int64_t demand, Instant now);

  // It is gone, with its credit and whatever it has at the server: requests that finish later must
  // not be told of.
  void close(CreditSession& session);

  // A request of it came, which says how many more it has queued. Either way replied() or dropped()
  // must follow. `delay` of the oldest waiting request.
  Arrival arrived(CreditSession& session, int64_t demand, Nanos delay);

  // A request of it is done, or is dropped and must be answered so: returns the credit to tell.
  int64_t replied(CreditSession& session, Instant now);
  int64_t dropped(CreditSession& session, Instant now);

  // It says without a request how many it has queued. Returns the credit to tell, or
  // kNothingToTell.
  int64_t demanded(CreditSession& session, int64_t demand, Instant now);

  // Grows or shrinks the pool, if it is time, and gives credits that are left to sessions that have
  // none: tell(session, credit) for each of those. To be called when requests finish and by time,
  // so that a server that finishes none still learns. False: it was not time.
  template <class Tell>
  bool update(Instant now, Nanos delay, Tell&& tell);

  static constexpr int64_t kNothingToTell = -1;

 private:
  // What each session may have beyond what it asks for: at least one.
  int64_t spare() const {
    return std::max<int64_t>(pool_.unissued() / std::max<int64_t>(pool_.sessions(), 1), 1);
  }
  void set_demand(CreditSession& session, int64_t demand) {
    session.demand = std::clamp<int64_t>(demand, 0, settings_.session_limit);
  }
  void set_credit(CreditSession& session, int64_t credit) {
    pool_.note_issued(credit - session.credit);
    session.credit = credit;
  }
  int64_t share(const CreditSession& session, bool woken) const;
  int64_t tell(CreditSession& session, Instant now);
  void leave_drained(CreditSession& session) {
    if (drained_.remove(session)) pool_.note_drained(-1);
  }

  CreditSettings settings_;
  int64_t max_cores_;
  CreditPool<Cell> pool_;
  DrainedSessions drained_;
};

template <class Cell>
int64_t CreditControl<Cell>::open(CreditSession& session, int64_t demand, Instant now) {
  session = CreditSession();
  pool_.note_opened();
  set_demand(session, demand);
  const int64_t left = std::max<int64_t>(pool_.unissued(), 0);
  set_credit(session, std::min({session.demand + 1, left, settings_.session_limit}));
  const int64_t credit = tell(session, now);
  session.grace = 1;
  return credit;
}

template <class Cell>
void CreditControl<Cell>::close(CreditSession& session) {
  leave_drained(session);
  set_credit(session, 0);
  pool_.note_pending(-session.pending);
  session = CreditSession();
  pool_.note_closed();
}

template <class Cell>
Arrival CreditControl<Cell>::arrived(CreditSession& session, int64_t demand, Nanos delay) {
  leave_drained(session);
  const bool credited = session.pending < std::max(session.credit, session.advertised);
  ++session.pending;
  pool_.note_pending(1);
  set_demand(session, demand);
  if (!credited) {
    if (session.grace == 0) return Arrival::kDropUncredited;
    --session.grace;
  }
  // What it does not need goes back at once, and what it uses is issued.
  set_credit(session, std::max(session.pending,
                               std::min(session.credit, session.pending + session.demand)));
  const Aqm aqm{settings_.drop_delay};
  return aqm.serves(delay) ? Arrival::kServe : Arrival::kDropLate;
}

// Half of the pool's rule: as much as it asks for and a little more while there are credits, one
// less when too many are out.
template <class Cell>
int64_t CreditControl<Cell>::share(const CreditSession& session, bool woken) const {
  const int64_t unissued = pool_.unissued();
  const int64_t enough = session.pending + session.demand + spare();
  int64_t credit = session.credit;
  if (unissued > 0) credit = std::min(enough, credit + unissued);
  if (unissued < 0) --credit;
  if (woken || pool_.sessions() <= max_cores_) credit = std::max(credit, spare());
  return std::clamp(credit, session.pending,
                    std::max(session.pending, std::min(enough, settings_.session_limit)));
}

template <class Cell>
int64_t CreditControl<Cell>::replied(CreditSession& session, Instant now) {
  --session.pending;
  pool_.note_pending(-1);
  int64_t credit = share(session, false);
  // Who was served keeps its last credit: sessions are drained by drops, not by turns.
  if (credit == 0 && session.credit > 0) credit = spare();
  set_credit(session, credit);
  return tell(session, now);
}

// III-A: a failure message has no credits; what it has at the server already is all it may have.
template <class Cell>
int64_t CreditControl<Cell>::dropped(CreditSession& session, Instant now) {
  --session.pending;
  pool_.note_pending(-1);
  set_credit(session, session.pending);
  return tell(session, now);
}

template <class Cell>
int64_t CreditControl<Cell>::demanded(CreditSession& session, int64_t demand, Instant now) {
  leave_drained(session);
  set_demand(session, demand);
  const int64_t needed = session.pending + session.demand;
  if (session.credit > needed) set_credit(session, needed);
  if (session.pending == 0 && session.demand > 0 && pool_.unissued() > 0) {
    set_credit(session, share(session, false));
  }
  if (session.credit > session.advertised) return tell(session, now);
  if (session.credit == 0 && session.pending == 0) tell(session, now);
  return kNothingToTell;
}

template <class Cell>
template <class Tell>
bool CreditControl<Cell>::update(Instant now, Nanos delay, Tell&& tell_client) {
  if (!pool_.update(now, delay)) return false;
  while (pool_.unissued() > 0) {
    CreditSession* const session = drained_.take(now, settings_.demand_fresh);
    if (session == nullptr) break;
    pool_.note_drained(-1);
    set_credit(*session, share(*session, true));
    tell_client(*session, tell(*session, now));
  }
  return true;
}

// Notes what it is told, and what it may still have sent on what it was told before.
template <class Cell>
int64_t CreditControl<Cell>::tell(CreditSession& session, Instant now) {
  if (session.credit < session.advertised) {
    session.grace = std::max(session.grace, session.advertised - session.pending);
  }
  session.advertised = session.credit;
  if (session.credit == 0) {
    drained_.add(session, now);
    pool_.note_drained(1);
  }
  return session.credit;
}

}  // namespace rubato::overload
