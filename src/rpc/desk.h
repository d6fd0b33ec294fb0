// SPDX-License-Identifier: Apache-2.0
//
// CreditDesk: the live host of overload/credit_control.h. All sessions of one server, the credits
// they have, and the requests that wait to be started, of which the oldest says how overloaded the
// server is (CoreSync III-C, D_m): only waiting for the first slice counts, so a long request that
// was preempted is no sign of overload.
//
// Any thread. One mutex guards everything but the counters and pool(); it is held for a few list
// and counter operations, and within a Section, so that no request is preempted while it has it.
// Who is to be told of credits without having asked is nudged (Datapath::nudge) with no lock held:
// a few by whoever finished a request, the rest by a thread of the desk, which also updates the
// pool while no request finishes. So many are told per turn that telling 10 000 idle sessions holds
// nobody up.
//
// A CreditMember is a session's place at the desk: the base of the host's session, which must stay
// where it is while it is open. A Waiting is one request's place in the queue of those not started.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>

#include "base/time.h"
#include "metrics/counter.h"
#include "overload/credit_control.h"
#include "rpc/frames.h"

namespace rubato {
class Datapath;
}

namespace rubato::rpc {

struct Waiting {
  Instant since;
  Waiting* before = nullptr;
  Waiting* after = nullptr;
  bool listed = false;
  bool underway = false;  // it has started
  bool is_long = false;   // see CreditDesk::classify
  bool judged = false;    // the desk itself has said that it is not to be served
};

class CreditMember {
 public:
  // `peer` as in Peer::address; its port does not count.
  explicit CreditMember(uint64_t flow, std::string_view peer = {})
      : flow_(flow), address_(peer.substr(0, peer.rfind(':'))) {}
  CreditMember(const CreditMember&) = delete;
  CreditMember& operator=(const CreditMember&) = delete;

  // The credit to tell, or -1. For the flow's owner; what it takes it must send.
  int64_t take_told() {
    if (told_.load(std::memory_order_relaxed) < 0) return -1;
    return told_.exchange(-1, std::memory_order_relaxed);
  }

 private:
  friend class CreditDesk;

  // What the rule knows of it, and the way back.
  struct Books : overload::CreditSession {
    explicit Books(CreditMember& m) : member(m) {}
    CreditMember& member;
  };

  const uint64_t flow_;
  const std::string address_;
  Books books_{*this};  // this and what follows: the desk's lock
  bool open_ = false;
  bool to_nudge_ = false;
  CreditMember* before_to_nudge_ = nullptr;
  CreditMember* after_to_nudge_ = nullptr;
  // Written under the desk's lock before the nudge, whose gate publishes it to the flow's owner.
  std::atomic<int64_t> told_{-1};
};

struct DeskOptions {
  overload::CreditSettings credits;
  uint32_t workers = 1;
  uint32_t max_sessions = 10000;
  uint32_t sessions_per_address = 0;  // 0 = all of them
  // Of long requests; zero = as others, and eight times their own service among their like. From
  // twice that on they are rejected.
  Nanos target_delay_long = Nanos();
};

class CreditDesk {
 public:
  using Pool = overload::CreditPool<std::atomic<int64_t>>;

  explicit CreditDesk(const DeskOptions& options);
  ~CreditDesk();
  CreditDesk(const CreditDesk&) = delete;
  CreditDesk& operator=(const CreditDesk&) = delete;

  // Sessions' flows are flows of this datapath: from now on they are nudged, and the desk's thread
  // runs. Until detach() the datapath lives.
  void attach(Datapath& datapath);
  void detach();

  // Returns the credit to tell; -1 = there are as many sessions as are taken, or as one address may
  // have (counted).
  int64_t open(CreditMember& member, uint32_t demand, Instant now);
  void close(CreditMember& member);
  void note_fault();

  // A request came, which waits since `since`. If it is to be served it waits on until started(),
  // dropped() or replied(); else dropped() must follow.
  overload::Arrival arrived(CreditMember& member, Waiting& waiting, uint32_t demand, Instant since,
                            Instant now);
  // The host has looked at what came: the request is long, or not. Before started() or dropped().
  void classify(Waiting& waiting, bool is_long);
  // It is first given to a worker. False: it has waited for too long, dropped() must follow.
  bool started(Waiting& waiting, Instant now);
  // It is done. `in_slices` is the service it had before it was preempted last, 0 = it never was.
  // Returns the credit to tell with the answer.
  int64_t replied(CreditMember& member, Waiting& waiting, Nanos in_slices, Instant now);
  int64_t dropped(CreditMember& member, Waiting& waiting, Reason reason, Instant now);
  // It will not be answered: its session ends.
  void withdraw(Waiting& waiting);
  // The client says what it has queued. Returns the credit that it was told last.
  int64_t demanded(CreditMember& member, uint32_t demand, Instant now);
  // The same for one that only asks.
  int64_t told_last(CreditMember& member);

  // What the desk's thread does every so often. True = soon again.
  bool tick(Instant now);

  // How long the oldest request that was not started has waited; or, if that is longer, how long
  // those that were preempted wait for each other, measured by a target of their own.
  Nanos delay(Instant now) const;
  // How long a client that was rejected had better wait: until the requests ahead are through.
  Nanos retry_after(Instant now) const;

  const Pool& pool() const { return control_.pool(); }
  Pool& pool() { return control_.pool(); }
  const DeskOptions& options() const { return options_; }

  // Any thread. Written under the lock.
  struct Counts {
    Counter opened;
    Counter refused;   // sessions over the limit
    Counter refused_of_address;  // over that of their address
    Counter served;
    Counter faults;    // sessions that were ended for what they sent
    Counter told;      // credits that went in a message of their own
    std::array<Counter, 5> rejected;  // by Reason
    // Of these, by class (long second), what the desk itself said so of: the runtime did not.
    std::array<std::array<Counter, 2>, 5> judged;
    Counter late;      // of these, what a worker had been given
  };
  const Counts& counts() const { return counts_; }

 private:
  static constexpr Nanos kTick = Nanos::millis(1);
  static constexpr Nanos kQuietTick = Nanos::millis(20);
  static constexpr uint32_t kNudgesPerTick = 32;
  static constexpr uint32_t kNudgesPerReply = 2;
  static constexpr int64_t kLongTarget = 8;  // mean services: 80 us for 10 us (CoreSync IV-A)
  static constexpr int64_t kEmaWeight = 8;
  static constexpr int kOvertakesMost = 16;  // of later ones, by a request that is taken in late
  class Lock;

  struct ListEnds : Waiting {
    ListEnds() { before = after = this; }
  };

  bool may_come_from(const std::string& address);
  void left(const std::string& address);
  Nanos delay_now(Instant now) const;
  Nanos in_proportion(Nanos wait, Nanos own_target) const;
  Nanos unstarted(bool is_long, Instant now) const;
  Nanos delay_among_preempted() const;
  void update(Instant now);
  void tell(CreditMember& member, int64_t credit);
  bool apart(const Waiting& waiting) const;
  void enqueue(Waiting& waiting);
  void leave_queue(Waiting& waiting);
  void leave(Waiting& waiting);
  void leave_nudges(CreditMember& member);
  void nudge(uint32_t most);
  void run();

  const DeskOptions options_;
  mutable std::mutex mutex_;
  overload::CreditControl<std::atomic<int64_t>> control_;
  std::array<ListEnds, 2> waiting_;  // after = the oldest; long ones apart if they have a target
  std::unordered_map<std::string, uint32_t> of_address_;  // sessions, where addresses have a limit
  int64_t underway_ = 0;         // requests that have started
  int64_t long_service_ns_ = 0;  // of preempted ones, on average
  CreditMember* first_to_nudge_ = nullptr;
  CreditMember* last_to_nudge_ = nullptr;
  std::atomic<bool> any_to_nudge_{false};
  Counts counts_;

  std::atomic<Datapath*> datapath_{nullptr};
  std::mutex thread_mutex_;  // guards stopping_
  std::condition_variable thread_wakes_;
  bool stopping_ = false;
  std::thread thread_;
};

// The desk's flows are this datapath's, for as long as this lives.
class DeskAttachment {
 public:
  DeskAttachment(CreditDesk& desk, Datapath& datapath) : desk_(desk) { desk_.attach(datapath); }
  ~DeskAttachment() { desk_.detach(); }
  DeskAttachment(const DeskAttachment&) = delete;
  DeskAttachment& operator=(const DeskAttachment&) = delete;

 private:
  CreditDesk& desk_;
};

}  // namespace rubato::rpc
