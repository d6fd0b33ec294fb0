// SPDX-License-Identifier: Apache-2.0
//
// CreditRule: how many requests each client may send (CoreSync III-A and III-C; where the paper is
// silent, the published code of its overload control, Breakwater's).
//
// Credits are absolute: a client that was told n may have n requests underway. Every reply carries
// the number. A session without a request at the server is told by a message of its own, and only
// when it gets more.
//
// The rule changes one session and counts in its Books, which are the simulator's exact ones
// (credit_control.h) or those of one worker of a live server (admission.h):
//   int64_t unissued()               credits that may still be given here; below 0: too many out
//   int64_t spare()                  what each session may have beyond what it asks for, at least 1
//   bool few_sessions()              no more than there are cores
//   void note_issued(int64_t change), note_pending(int64_t change)
//   void drain(CreditSession&, Instant), undrain(CreditSession&)   it has no credit; no longer
// Made for a call or two. Calls with a session that is not open are bugs.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/check.h"
#include "base/time.h"
#include "overload/aqm.h"
#include "overload/credit_session.h"
#include "overload/credit_settings.h"

namespace rubato::overload {

enum class Arrival : uint8_t {
  kServe,
  kRefuseLate,        // the oldest request has waited for longer than D_drop
  kRefuseUncredited,  // the client sent more than it was ever allowed
};

inline constexpr int64_t kNoAdvertisement = -1;

template <class Account>
class CreditRule {
 public:
  CreditRule(const CreditSettings& settings, Account& account)
      : settings_(settings), account_(account) {}

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
  int64_t refused(CreditSession& session, Instant now);

  // It says without a request how many it has queued. Returns the credit to tell, or
  // kNoAdvertisement.
  int64_t note_demand(CreditSession& session, int64_t demand, Instant now);

  // What a drained session that has `demand` requests queued gets when there are credits again.
  int64_t woken(int64_t demand) const {
    CreditSession session;
    session.demand = demand;
    return share(session, true);
  }
  void set_credit(CreditSession& session, int64_t credit) {
    RUBATO_DCHECK(credit >= 0);
    account_.note_issued(credit - session.credit);
    session.credit = credit;
  }
  // Notes what it is told, and what it may still have sent on what it was told before.
  int64_t advertise(CreditSession& session, Instant now);

 private:
  void set_demand(CreditSession& session, int64_t demand) {
    session.demand = std::clamp<int64_t>(demand, 0, settings_.session_limit);
  }
  void end_request(CreditSession& session) {
    RUBATO_DCHECK(session.pending > 0);  // each request is answered once
    --session.pending;
    account_.note_pending(-1);
  }
  int64_t share(const CreditSession& session, bool woken) const;

  const CreditSettings& settings_;
  Account& account_;
};

template <class Account>
int64_t CreditRule<Account>::open(CreditSession& session, int64_t demand, Instant now) {
  set_demand(session, demand);
  const int64_t left = std::max<int64_t>(account_.unissued(), 0);
  set_credit(session, std::min({session.demand + 1, left, settings_.session_limit}));
  const int64_t credit = advertise(session, now);
  session.grace = 1;
  return credit;
}

template <class Account>
void CreditRule<Account>::close(CreditSession& session) {
  account_.undrain(session);
  set_credit(session, 0);
  account_.note_pending(-session.pending);
}

template <class Account>
Arrival CreditRule<Account>::arrived(CreditSession& session, int64_t demand, Nanos delay) {
  account_.undrain(session);
  const bool credited = session.pending < std::max(session.credit, session.advertised);
  ++session.pending;
  account_.note_pending(1);
  set_demand(session, demand);
  if (!credited) {
    if (session.grace == 0) return Arrival::kRefuseUncredited;
    --session.grace;
    RUBATO_DCHECK(session.grace >= 0);
  }
  // What it does not need goes back at once, and what it uses is issued.
  set_credit(session, std::max(session.pending,
                               std::min(session.credit, session.pending + session.demand)));
  const Aqm aqm{settings_.refuse_delay};
  return aqm.serves(delay) ? Arrival::kServe : Arrival::kRefuseLate;
}

// Half of the pool's rule: as much as it asks for and a little more while there are credits, one
// less when too many are out.
template <class Account>
int64_t CreditRule<Account>::share(const CreditSession& session, bool woken) const {
  const int64_t unissued = account_.unissued();
  const int64_t enough = session.pending + session.demand + account_.spare();
  int64_t credit = session.credit;
  if (unissued > 0) credit = std::min(enough, credit + unissued);
  if (unissued < 0) --credit;
  if (woken || account_.few_sessions()) credit = std::max(credit, account_.spare());
  return std::clamp(credit, session.pending,
                    std::max(session.pending, std::min(enough, settings_.session_limit)));
}

template <class Account>
int64_t CreditRule<Account>::replied(CreditSession& session, Instant now) {
  end_request(session);
  int64_t credit = share(session, false);
  // A session that was served keeps its last credit: sessions are drained by drops, not by turns.
  if (credit == 0 && session.credit > 0) credit = account_.spare();
  set_credit(session, credit);
  return advertise(session, now);
}

// III-A: a failure message has no credits; what it has at the server already is all it may have.
template <class Account>
int64_t CreditRule<Account>::refused(CreditSession& session, Instant now) {
  end_request(session);
  set_credit(session, session.pending);
  return advertise(session, now);
}

template <class Account>
int64_t CreditRule<Account>::note_demand(CreditSession& session, int64_t demand, Instant now) {
  account_.undrain(session);
  set_demand(session, demand);
  const int64_t needed = session.pending + session.demand;
  if (session.credit > needed) set_credit(session, needed);
  if (session.demand > 0 && account_.unissued() > 0) {
    set_credit(session, share(session, false));
  }
  if (session.credit > session.advertised) return advertise(session, now);
  if (session.credit == 0 && session.pending == 0) advertise(session, now);
  return kNoAdvertisement;
}

template <class Account>
int64_t CreditRule<Account>::advertise(CreditSession& session, Instant now) {
  if (session.credit < session.advertised) {
    session.grace = std::max(session.grace, session.advertised - session.pending);
  }
  session.advertised = session.credit;
  if (session.credit == 0) account_.drain(session, now);
  return session.credit;
}

}  // namespace rubato::overload
