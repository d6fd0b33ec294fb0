// SPDX-License-Identifier: Apache-2.0
#include "sim/nic.h"

#include <algorithm>

#include "base/check.h"

namespace rubato::sim {
namespace {

// The key of Microsoft's "RSS hashing functions" specification, whose test vectors it must give.
constexpr std::array<uint8_t, 40> kKey{
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3,
    0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3,
    0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa};

// The hash is linear: each byte adds a share of its own, by its place.
constexpr size_t kPlaces = kKey.size() - 4;
using Shares = std::array<std::array<uint32_t, 256>, kPlaces>;
const Shares kShares = [] {
  Shares shares{};
  for (size_t place = 0; place < kPlaces; ++place) {
    uint64_t window = 0;
    for (size_t i = 0; i < 5; ++i) window = window << 8 | kKey[place + i];
    for (size_t byte = 0; byte < 256; ++byte) {
      for (uint32_t bit = 0; bit < 8; ++bit) {
        const bool set = (byte << bit & 0x80) != 0;
        if (set) shares[place][byte] ^= static_cast<uint32_t>(window >> (8 - bit));
      }
    }
  }
  return shares;
}();

constexpr std::array<uint8_t, 4> kServer{10, 255, 0, 1};
constexpr uint16_t kServerPort = 6379;
constexpr uint32_t kFirstPort = 1024;
constexpr uint32_t kPortsPerClient = 512;

void write_port(FlowTuple& tuple, size_t at, uint32_t port) {
  tuple[at] = static_cast<uint8_t>(port >> 8);
  tuple[at + 1] = static_cast<uint8_t>(port);
}

}  // namespace

FlowTuple tuple_of(uint64_t flow) {
  const uint64_t client = 1 + flow / kPortsPerClient;
  FlowTuple tuple{};
  tuple[0] = 10;
  tuple[1] = static_cast<uint8_t>(client >> 16);
  tuple[2] = static_cast<uint8_t>(client >> 8);
  tuple[3] = static_cast<uint8_t>(client);
  std::copy(kServer.begin(), kServer.end(), tuple.begin() + 4);
  write_port(tuple, 8, kFirstPort + static_cast<uint32_t>(flow % kPortsPerClient));
  write_port(tuple, 10, kServerPort);
  return tuple;
}

uint32_t toeplitz(std::span<const uint8_t> bytes) {
  RUBATO_CHECK(bytes.size() + 4 <= kKey.size());
  uint32_t hash = 0;
  for (size_t i = 0; i < bytes.size(); ++i) hash ^= kShares[i][bytes[i]];
  return hash;
}

Nic::Nic(const Costs::Nic& costs, uint32_t workers, uint64_t seed)
    : costs_(costs), workers_(workers), prng_(seed) {}

// The table is filled by turns, as drivers do.
uint16_t Nic::hash(uint64_t flow) const {
  const FlowTuple tuple = tuple_of(flow);
  return static_cast<uint16_t>(toeplitz(tuple) % costs_.indirection_entries % workers_);
}

// Null: a flow whose rules are not remembered.
Nic::Entry* Nic::entry_of(uint64_t flow) {
  if (flow >= kRemembered) return nullptr;
  if (flow >= flows_.size()) flows_.resize(std::max<uint64_t>(flow + 1, 2 * flows_.size()));
  Entry& entry = flows_[flow];
  if (entry.hashed == kUnknown) entry.hashed = entry.before = hash(flow);
  return &entry;
}

// Of a flow that has had no rule.
uint16_t Nic::steer_by_hash(uint64_t flow) {
  if (flow >= kRemembered) return hash(flow);
  if (flow >= hashed_.size()) {
    hashed_.resize(std::max<uint64_t>(flow + 1, 2 * hashed_.size()), kUnknown);
  }
  hashed_[flow] = hash(flow);
  return hashed_[flow];
}

// Under Steering::kFlowDirector the first request of a flow asks for a rule that spreads flows
// evenly.
uint32_t Nic::steer_by_flow(uint64_t flow, Instant at) {
  Entry* const entry = entry_of(flow);
  if (entry == nullptr) return hash(flow);
  if (costs_.steering == Steering::kFlowDirector && entry->ruled == kUnknown) {
    entry->ruled = entry->hashed;
    write(*entry, static_cast<uint32_t>(rules_ % workers_), at);
  }
  return at < entry->in_force ? entry->before : entry->ruled;
}

bool Nic::add_rule(uint64_t flow, uint32_t worker, Instant at) {
  const bool by_flow =
      costs_.steering == Steering::kRss || costs_.steering == Steering::kFlowDirector;
  Entry* const entry = by_flow ? entry_of(flow) : nullptr;
  if (entry == nullptr || !write(*entry, worker, at)) return false;
  steer_by_hash(flow);
  hashed_[flow] = kHasEntry;
  return true;
}

bool Nic::remove_rule(uint64_t flow, Instant at) {
  if (flow >= flows_.size() || !flows_[flow].has_rule) return false;
  Entry& entry = flows_[flow];
  entry.before = at < entry.in_force ? entry.before : entry.ruled;
  entry.ruled = entry.hashed;
  entry.has_rule = false;
  entry.in_force = table_free_ = std::max(table_free_, at) + costs_.rule_update;
  --rules_;
  ++removed_;
  return true;
}

// The NIC writes one rule at a time.
bool Nic::write(Entry& entry, uint32_t worker, Instant at) {
  if (!entry.has_rule && rules_ == kMostRules) {
    ++ruleless_;
    return false;
  }
  if (entry.in_force <= at) entry.before = entry.ruled;
  if (!entry.has_rule) ++rules_;
  ++written_;
  entry.has_rule = true;
  entry.ruled = static_cast<uint16_t>(worker);
  entry.in_force = table_free_ = std::max(table_free_, at) + costs_.rule_update;
  return true;
}

}  // namespace rubato::sim
