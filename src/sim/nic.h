// SPDX-License-Identifier: Apache-2.0
//
// Nic: steers the requests of a flow to the ring of a worker. Receive-side scaling hashes the
// flow's addresses and ports (Toeplitz, the 40-byte default key) and looks the hash up in the
// indirection table; a flow director adds exact-match rules, which take time to come into force or
// to go and are bounded: rules of its own (Steering::kFlowDirector), or those that workers ask for.
// Deterministic. One owner.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/prng.h"
#include "sim/costs.h"

namespace rubato::sim {

// The 12 bytes that RSS hashes for UDP and TCP over IPv4: addresses and ports, in network order.
using FlowTuple = std::array<uint8_t, 12>;

// The addresses of flow number `flow`: clients 10.0.0.0/8 with 512 source ports each (1024..1535),
// one server.
FlowTuple tuple_of(uint64_t flow);

// The Toeplitz hash under the key that drivers ship as default.
uint32_t toeplitz(std::span<const uint8_t> bytes);

class Nic {
 public:
  static constexpr uint32_t kMostRules = 8192;  // exact-match entries, as on the 82599

  Nic(const Costs::Nic& costs, uint32_t workers, uint64_t seed);

  // The worker that a request of this flow goes to when it arrives at `at`.
  uint32_t steer(uint64_t flow, Instant at);

  // A request of this flow comes next: its entry is fetched while others are served.
  void expect(uint64_t flow) const {
    if (flow < hashed_.size()) __builtin_prefetch(&hashed_[flow]);
  }

  // From the moment at which the rule is written on, the flow goes to `worker`; or again where its
  // hash says. False: NICs that do not steer by flow have no rules; the table is full; there is
  // nothing to remove.
  bool add_rule(uint64_t flow, uint32_t worker, Instant at);
  bool remove_rule(uint64_t flow, Instant at);

  uint64_t rules() const { return rules_; }          // in force or on their way
  uint64_t written() const { return written_; }      // rules, ever
  uint64_t removed() const { return removed_; }
  uint64_t ruleless() const { return ruleless_; }    // flows that found the rule table full

 private:
  struct Entry {
    uint16_t hashed = kUnknown;  // by RSS
    uint16_t before = kUnknown;  // where it goes until `in_force`
    uint16_t ruled = kUnknown;   // and then
    bool has_rule = false;
    Instant in_force = Instant::never();
  };
  static constexpr uint16_t kUnknown = UINT16_MAX;
  static constexpr uint16_t kHasEntry = kUnknown - 1;  // has, or had, a rule: flows_ says
  static constexpr uint64_t kRemembered = 1u << 20;    // flows whose hash is kept

  uint16_t hash(uint64_t flow) const;
  uint16_t steer_by_hash(uint64_t flow);
  Entry* entry_of(uint64_t flow);
  uint32_t steer_by_flow(uint64_t flow, Instant at);
  bool write(Entry& entry, uint32_t worker, Instant at);

  Costs::Nic costs_;
  uint32_t workers_;
  Prng prng_;
  uint32_t turn_ = 0;
  uint64_t rules_ = 0;
  uint64_t written_ = 0;
  uint64_t removed_ = 0;
  uint64_t ruleless_ = 0;
  Instant table_free_;         // when the next rule can be written
  std::vector<uint16_t> hashed_;  // by flow: where RSS sends it, kUnknown or kHasEntry
  std::vector<Entry> flows_;      // as far as flows have had rules
};

// Inline: once per request.
inline uint32_t Nic::steer(uint64_t flow, Instant at) {
  switch (costs_.steering) {
    case Steering::kRandom:
      return prng_.below(workers_);
    case Steering::kRoundRobin:
      turn_ = turn_ + 1 < workers_ ? turn_ + 1 : 0;
      return turn_;
    case Steering::kRss:
      if (flow < hashed_.size() && hashed_[flow] < kHasEntry) [[likely]] return hashed_[flow];
      if (flow >= hashed_.size() || hashed_[flow] == kUnknown) return steer_by_hash(flow);
      break;
    case Steering::kFlowDirector:
      break;
  }
  return steer_by_flow(flow, at);
}

}  // namespace rubato::sim
