// SPDX-License-Identifier: Apache-2.0
//
// MarkedSessions: the sessions that a worker has told zero since update() looked last, each once,
// however often it was told so. mark() by the flow's owner; take_all() by one thread at a time.
//
// What a session has queued is in `drained_demand`, which is written before mark(). take_all()
// takes the mark off before it shows the session to the caller, who reads that word. So an owner
// that finds the mark set wrote before it is read; one that finds none lists the session again.
#pragma once

#include <utility>

namespace rubato::overload {

// Platform: see admission.h. Session: has Cell<bool> marked and Session* next_marked.
template <class Platform, class Session>
class MarkedSessions {
 public:
  void mark(Session& session) {
    if (session.marked.exchange(true)) return;
    Session* head = head_.load();
    do {
      session.next_marked = head;
    } while (!head_.compare_exchange_weak(head, &session));
  }

  // show(Session&), the session marked first before others.
  template <class Show>
  void take_all(Show&& show) {
    if (head_.load() == nullptr) return;
    Session* in_order = nullptr;
    for (Session* session = head_.exchange(nullptr); session != nullptr;) {
      Session* const next = std::exchange(session->next_marked, in_order);
      in_order = std::exchange(session, next);
    }
    while (in_order != nullptr) {
      Session& session = *std::exchange(in_order, in_order->next_marked);
      session.marked.store(false);
      show(session);
    }
  }

 private:
  typename Platform::template Cell<Session*> head_{nullptr};
};

}  // namespace rubato::overload
