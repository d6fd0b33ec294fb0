// SPDX-License-Identifier: Apache-2.0
#include "overload/balancer.h"

#include <algorithm>
#include <numeric>

namespace rubato::overload {

Balancer::Balancer(Balancing how, uint32_t servers, uint64_t seed)
    : how_(how),
      prng_(seed),
      in_flight_(servers),
      weights_(servers, 100),
      weights_sum_(uint64_t{100} * servers),
      turn_(prng_.below(servers)) {}

uint32_t Balancer::pick(Instant now, uint32_t avoid) {
  constexpr int kTries = 4;
  uint32_t server = choose(now);
  for (int i = 1; server == avoid && i < kTries; ++i) server = choose(now);
  if (server == avoid && servers() > 1) {
    server = (avoid + 1 + prng_.below(servers() - 1)) % servers();
  }
  send(server);
  return server;
}

uint32_t Balancer::choose(Instant now) {
  switch (how_) {
    case Balancing::kRandom: return draw();
    case Balancing::kRoundRobin: return turn_++ % servers();
    case Balancing::kTwoChoices: {
      const uint32_t one = draw(), other = draw();
      return in_flight_[other] < in_flight_[one] ? other : one;
    }
    case Balancing::kLeastRequests: return least();
    case Balancing::kPrequal: return by_probes(now);
    case Balancing::kWeights: return by_weights();
  }
  return 0;
}

// From a random place on, so that equals are equally likely, or nearly.
uint32_t Balancer::least() {
  const uint32_t from = draw();
  uint32_t best = from;
  for (uint32_t i = 1; i < servers(); ++i) {
    const uint32_t server = (from + i) % servers();
    if (in_flight_[server] < in_flight_[best]) best = server;
  }
  return best;
}

// Hot-cold lexicographic (Prequal, section 4): of servers that are not hot the one with the least
// latency, else the one with the least load. Without two answers it draws.
uint32_t Balancer::by_probes(Instant now) {
  std::erase_if(pool_, [now](const Probe& probe) { return now - probe.at > kProbeAge; });
  if (pool_.size() < 2) return draw();
  std::vector<uint32_t> loads;
  for (const Probe& probe : pool_) loads.push_back(probe.answer.load.in_flight);
  const auto place = static_cast<size_t>(kHotQuantile * static_cast<double>(loads.size() - 1));
  std::nth_element(loads.begin(), loads.begin() + static_cast<ptrdiff_t>(place), loads.end());
  const uint32_t hot_from = loads[place] + 1;
  size_t best = 0;
  const auto better = [&](const ServerLoad& a, const ServerLoad& b) {
    const bool a_hot = a.in_flight >= hot_from, b_hot = b.in_flight >= hot_from;
    if (a_hot != b_hot) return b_hot;
    return a_hot ? a.in_flight < b.in_flight : a.latency < b.latency;
  };
  for (size_t i = 1; i < pool_.size(); ++i) {
    if (better(pool_[i].answer.load, pool_[best].answer.load)) best = i;
  }
  // The request that goes there makes the answer out of date.
  const uint32_t server = pool_[best].answer.server;
  ++pool_[best].answer.load.in_flight;
  forget_probe(best);
  return server;
}

// One answer per request, the oldest and the worst by turns; `used` is worn out.
void Balancer::forget_probe(size_t used) {
  forgets_worst_ = !forgets_worst_;
  size_t place = 0;
  if (forgets_worst_) {
    for (size_t i = 1; i < pool_.size(); ++i) {
      if (pool_[i].answer.load.in_flight > pool_[place].answer.load.in_flight) place = i;
    }
  }
  pool_.erase(pool_.begin() + static_cast<ptrdiff_t>(used));
  if (place == used || pool_.size() < kPool / 2) return;
  pool_.erase(pool_.begin() + static_cast<ptrdiff_t>(place > used ? place - 1 : place));
}

void Balancer::learn(const ProbeAnswer& answer, Instant now) {
  std::erase_if(pool_, [&](const Probe& probe) { return probe.answer.server == answer.server; });
  if (pool_.size() == kPool) pool_.erase(pool_.begin());
  pool_.push_back({answer, now});
}

void Balancer::learn_weights(std::span<const int> weights) {
  weights_.assign(weights.begin(), weights.end());
  weights_sum_ = static_cast<uint64_t>(std::accumulate(weights_.begin(), weights_.end(), 0));
}

uint32_t Balancer::by_weights() {
  if (weights_sum_ == 0) return draw();
  auto left = static_cast<int>(prng_.below(static_cast<uint32_t>(weights_sum_)));
  for (uint32_t server = 0; server < servers(); ++server) {
    left -= weights_[server];
    if (left < 0) return server;
  }
  return servers() - 1;
}

}  // namespace rubato::overload
