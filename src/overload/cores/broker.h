// SPDX-License-Identifier: Apache-2.0
//
// CoreBroker: CPUs shared among servers, of which each has an allocator of cores (contract.h). It
// is the controller of all these allocators: a server's signals are judged by its own rule, and a
// verdict becomes a CPU that is given or asked back. Where no CPU is free:
//   * A server below its guaranteed cores gets one from the server that has the most beyond its
//     own, as Caladan does (OSDI 2020, section 4.3).
//   * Another one gets one from a server that has at least two more beyond its own: so servers that
//     all want more end with shares that differ by one at most, and no CPU goes back and forth.
// A CPU that is asked back is free when the server says that it has parked a core, or, since a core
// parks only between two requests, when `grace` has passed: then it is taken. One that its own rule
// has released stays the server's if the rule grants before that. A server that says nothing for
// `patience` counts as hung and has no core, guaranteed or not, until it speaks again.
//
// Orders and reports are numbered: what a server says before it knows the last order is no answer
// to it. Pure; one owner. CPUs are numbers of the caller's.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "overload/cores/rule.h"

namespace rubato::overload {

struct CoreClaim {
  uint32_t guaranteed = 1;  // at least one
  uint32_t limit = 1;       // the most cores that it can use, at least `guaranteed`
};

// A server's answer to an order.
struct CoreReport {
  uint64_t order = 0;  // the last one that it has obeyed
  uint32_t cores = 0;  // that its workers have or are about to give up
  CoreSignals signals;
};

class CoreBroker {
 public:
  using Server = uint32_t;

  static constexpr size_t kMostServers = 64;

  // What a server may have.
  struct Order {
    uint64_t number = 0;
    uint32_t cores = 0;           // workers that may be awake
    std::vector<uint32_t> cpus;   // where its threads may run; those asked back are among them
  };

  struct View {
    Server server = 0;
    CoreClaim claim;
    Order order;
    bool hung = false;
    uint32_t cores = 0;      // as it said last
    Nanos delay;             // likewise: its longest wait
    uint64_t granted = 0;    // CPUs that it got, beyond those it had from the start
    uint64_t given_back = 0; // of its own accord, or as it was asked
    uint64_t taken = 0;      // asked back in vain
  };

  struct Counts {
    uint64_t moves = 0;     // CPUs that went to a server after another one had them
    uint64_t refused = 0;   // servers that did not fit
    uint64_t hung = 0;      // times that a server was found hung
    uint64_t late = 0;      // reports that were no answer to the last order
  };

  // Requires CPUs.
  CoreBroker(std::vector<uint32_t> cpus, Nanos grace, Nanos patience);

  // Fails with one line if there are too many servers, or if the guaranteed cores of all together
  // are more than the CPUs.
  Result<Server> join(std::unique_ptr<CoreRule> rule, CoreClaim claim, Instant at);
  // The CPUs are free at once. Nothing happens for a server that has left.
  void leave(Server server, Instant at);
  // After the reports that have come; before pass(), which judges who is silent.
  void report(Server server, const CoreReport& report, Instant at);
  // Takes what was asked back for too long, and what hung servers have.
  void pass(Instant at);
  // When pass() will have something to do; never = no server is there that could hang.
  Instant due() const;

  // Requires that it has joined and not left.
  const Order& order(Server server) const { return servers_.at(server).view.order; }
  std::vector<View> view() const;
  const std::vector<uint32_t>& free() const { return free_; }
  const std::vector<uint32_t>& cpus() const { return cpus_; }
  const Counts& counts() const { return counts_; }

 private:
  struct Ask {
    Instant at;
    bool released = false;  // by its own rule: nobody else waits for it
  };

  struct Member {
    std::unique_ptr<CoreRule> rule;
    View view;
    bool wants = false;     // a core more
    std::deque<Ask> asked;  // back, of those that it has; the oldest first
    Instant heard_at;

    uint32_t held() const { return static_cast<uint32_t>(view.order.cpus.size()); }
    uint32_t kept() const { return held() - static_cast<uint32_t>(asked.size()); }
    bool lacks() const { return !view.hung && kept() < view.claim.guaranteed; }
    uint32_t beyond() const {
      return kept() > view.claim.guaranteed ? kept() - view.claim.guaranteed : 0;
    }
  };

  void take_answer(Member& member, const CoreReport& report);
  void ask_back(Member& member, Ask ask);
  static bool keep_one(Member& member);
  void free_one(Member& member);
  void give(Member& member);
  void settle(Instant at);
  std::vector<Member*> wanting();
  Member* victim_for(const Member& wanting);
  static void renumber(Member& member);

  const std::vector<uint32_t> cpus_;
  const Nanos grace_;
  const Nanos patience_;
  std::vector<uint32_t> free_;       // in the order in which they became so
  std::map<uint32_t, Server> last_;  // who had a CPU last
  std::map<Server, Member> servers_;
  Server next_ = 0;
  Counts counts_;
};

}  // namespace rubato::overload
