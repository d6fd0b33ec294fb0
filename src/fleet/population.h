// SPDX-License-Identifier: Apache-2.0
//
// Population: the clients of a world. A *call* is what a user waits for; it has one *request* or,
// with a fan-out, several; a request has *attempts*: the first, retries after timeouts and
// refusals, and hedges. Each client machine has a balancer and budgets of its own. The latency of
// a call is from when it was made to the last of its answers, whatever attempts that took. One
// owner; the world (fleet/world.h) brings the events.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/prng.h"
#include "fleet/agenda.h"
#include "fleet/budget.h"
#include "fleet/call_tally.h"
#include "fleet/server_set.h"
#include "fleet/stretches.h"
#include "fleet/world_spec.h"
#include "metrics/histogram.h"
#include "overload/balancer.h"
#include "overload/heard_levels.h"
#include "workload/source.h"

namespace rubato::fleet {

using overload::Balancer;

// One interval of the run.
struct FleetSlice {
  uint64_t calls = 0;     // made in it
  uint64_t served = 0;    // answered in it, in time
  uint64_t failed = 0;    // given up in it
  uint64_t attempts = 0;  // sent in it
  double latency_ns = 0;  // of the served ones in all
};

// Of calls made after the start-up, but for the slices.
struct GroupOutcome : CallCounts {
  std::string name;
  Histogram latency;  // of served calls
  std::vector<std::pair<std::string, Histogram>> types;  // the same by type
  CallCounts left_out;             // of calls made before
  std::vector<CallBatch> batches;  // after the warm-up; the first may be start-up
  std::vector<FleetSlice> slices;
};

class Population final : public ServerSet::Listener {
 public:
  // Requires a valid spec; `types` are those of all groups. References outlive this.
  Population(const WorldSpec& spec, const Mix& types, Agenda& agenda);
  void serve_with(ServerSet& servers) { servers_ = &servers; }

  // Every group begins.
  void start();
  // Any happening but kLook.
  void on_event(const Appointment& event);
  // Every AdvertisedWeight::kLookEvery.
  void look(Instant now);

  void answered(uint64_t token, sim::Fate fate, Instant at) override;

  // Measured calls that have not ended.
  uint64_t open_calls() const { return open_calls_; }
  // The next batch begins, or the last one ends.
  void mark(Instant now);
  // Nobody makes any more calls. Their sums are left to sum_measured (fleet/measured.h).
  std::vector<GroupOutcome> take_outcomes();

 private:
  static constexpr uint32_t kNobody = UINT32_MAX;
  static constexpr uint32_t kNowhere = UINT32_MAX;

  struct Call {
    void begin() {
      requests.clear();
      left = 0;
    }
    std::vector<SlotName> requests;  // without an answer, and some that have one
    uint32_t group = 0, machine = 0, user = kNobody, type = 0;
    uint32_t left = 0;  // requests without an answer
    uint64_t flow = 0;
    Instant made;
    uint32_t cell = Stretches::kNoCell;
  };
  struct Request {
    void begin() {
      waiting.clear();
      tries = 0;
      is_hedged = false;
      last_server = Balancer::kNone;
    }
    SlotName call;
    std::vector<SlotName> waiting;  // attempts whose answer the client waits for
    Nanos service;
    uint32_t type = 0;   // of the world
    uint32_t home = Balancer::kNone;  // the server of the first attempt; kNone = any
    uint32_t tries = 0;  // attempts but for hedges
    uint32_t last_server = Balancer::kNone;
    uint8_t priority = 0;
    bool is_hedged = false;
  };
  struct Attempt {
    void begin() {}
    SlotName request;
    sim::SentRequest sent;  // offer.at: by the client
    uint32_t group = 0, server = 0, balancer = 0, machine = 0;
    uint32_t cell = Stretches::kNoCell;  // of its call
    uint32_t place = kNowhere;  // in the servers, while one has it
    bool is_waited_for = true;  // then its request is not gone
    bool is_cancelled = false;  // and its server has heard of it
    bool is_withheld = false;   // it was not sent
    uint32_t levels = overload::kLevels;  // that its server admitted when it answered
  };
  // Of one machine.
  struct Machine {
    Budget retries, hedges;
    // Of each server; empty = nobody heeds them.
    std::vector<overload::HeardLevels> heard;

    bool withholds(const Attempt& attempt, Instant now);
  };
  struct Group {
    Group(const ClientGroup& the_spec, const Stretches& stretches, uint64_t seed);

    const ClientGroup& spec;
    std::optional<RequestSource> source;  // of open ones
    Offer coming;
    Prng prng;
    std::vector<uint32_t> types;  // of the world, by type of the group
    std::vector<uint8_t> priorities;
    std::vector<Machine> machines;
    uint32_t first_balancer = 0;
    Nanos hedge_after;   // at present
    Histogram answers;   // latencies of requests, for its percentile
    CallTally tally;
    GroupOutcome outcome;  // without the tally
  };

  void next_call_of(uint32_t number);
  void make_call(uint32_t number, uint32_t user, const Offer& offer, Instant now);
  void end_call(SlotName name, bool served, Instant now);
  void begin_request(SlotName call, const Offer& offer, uint32_t home, Instant now);
  void send_attempt(SlotName name, bool is_hedge, Instant now);
  void arrive(SlotName name, Instant now);
  void receive(SlotName name, sim::Fate fate, Instant now);
  void time_out(SlotName name, Instant now);
  void cancel(SlotName name);
  void succeed(SlotName name, Instant now);
  void fail_attempt(SlotName name, bool may_retry, Instant now);
  void hedge(SlotName name, Instant now);
  void forget(SlotName name, Instant now);
  void stop_waiting(SlotName attempt);
  void give_up(SlotName attempt, Instant now);
  FleetSlice& slice_of(Group& group, Instant now);
  Nanos way_of(Group& group);

  const WorldSpec& spec_;
  Agenda& agenda_;
  ServerSet* servers_ = nullptr;
  std::vector<Group> groups_;
  std::vector<Balancer> balancers_;
  Slots<Call> calls_;
  Slots<Request> requests_;
  Slots<Attempt> attempts_;
  Instant end_at_;
  uint64_t open_calls_ = 0;
};

}  // namespace rubato::fleet
