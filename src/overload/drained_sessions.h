// SPDX-License-Identifier: Apache-2.0
//
// DrainedSessions: the sessions with no credit and no request at the server, in the order in which
// they get one again. First those that said they have requests queued, the latest of them first, as
// its requests have the most time left; then the others, the earliest first (Breakwater's order, in
// the published code of CoreSync). Borrows the sessions; under the host's lock.
#pragma once

#include "base/time.h"
#include "overload/credit_session.h"

namespace rubato::overload {

class DrainedSessions {
 public:
  void add(DrainedEntry& session, bool has_demand, Instant now) {
    session.drained_at = now;
    if (has_demand) {
      session.drained = DrainedEntry::Drained::kHigh;
      high_.push_front(session);
    } else {
      session.drained = DrainedEntry::Drained::kLow;
      low_.push_back(session);
    }
  }

  // Does nothing to one that is not drained. True = it was.
  bool remove(DrainedEntry& session) {
    if (session.drained == DrainedEntry::Drained::kNo) return false;
    (session.drained == DrainedEntry::Drained::kHigh ? high_ : low_).remove(session);
    session.drained = DrainedEntry::Drained::kNo;
    return true;
  }

  // Null when there is none. Demand older than `fresh` is not believed.
  DrainedEntry* take(Instant now, Nanos fresh) {
    while (high_.last != nullptr && now - high_.last->drained_at > fresh) {
      DrainedEntry& stale = *high_.last;
      high_.remove(stale);
      stale.drained = DrainedEntry::Drained::kLow;
      low_.push_back(stale);
    }
    DrainedEntry* session = high_.first != nullptr ? high_.first : low_.first;
    if (session != nullptr) remove(*session);
    return session;
  }

 private:
  struct List {
    void push_front(DrainedEntry& s) {
      s.before = nullptr;
      s.after = first;
      (first != nullptr ? first->before : last) = &s;
      first = &s;
    }
    void push_back(DrainedEntry& s) {
      s.after = nullptr;
      s.before = last;
      (last != nullptr ? last->after : first) = &s;
      last = &s;
    }
    void remove(DrainedEntry& s) {
      (s.before != nullptr ? s.before->after : first) = s.after;
      (s.after != nullptr ? s.after->before : last) = s.before;
      s.before = s.after = nullptr;
    }

    DrainedEntry* first = nullptr;
    DrainedEntry* last = nullptr;
  };

  List high_;
  List low_;
};

}  // namespace rubato::overload
