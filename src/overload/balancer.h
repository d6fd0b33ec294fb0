// SPDX-License-Identifier: Apache-2.0
//
// Balancer: the choice of a server for each request, from what one client machine (or a balancer
// that all share) knows of the servers: how many of its own requests each has, what probes of
// Prequal said, and the weights that the servers ask for. Pure; the world brings time and news.
// One owner.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/option_info.h"
#include "base/prng.h"
#include "base/time.h"
#include "overload/latency_by_load.h"

namespace rubato::overload {

// How a client chooses the server of a request.
enum class Balancing : uint8_t {
  kRandom,
  kRoundRobin,
  kTwoChoices,     // of two drawn at random that with fewer of its requests (Mitzenmacher 2001)
  kLeastRequests,  // with the fewest of its requests
  kPrequal,        // by probes of load and latency (Wydrowski et al., NSDI 2024)
  kWeights,        // at random in proportion to what servers ask for (overload/advertised_weight.h)
};

inline constexpr std::array kBalancingChoices{
    OptionChoice{"random", "each equally likely"},
    OptionChoice{"round-robin", "in turn"},
    OptionChoice{"two-choices", "of two drawn at random the one with fewer requests of the client"},
    OptionChoice{"least-requests", "the one with the fewest requests of the client"},
    OptionChoice{"prequal", "by probes of load and latency"},
    OptionChoice{"weights", "at random, in proportion to the weights that servers ask for"},
};
constexpr std::span<const OptionChoice> choices_of(Balancing) { return kBalancingChoices; }

// What a server said of itself when it was probed.
struct ProbeAnswer {
  uint32_t server = 0;
  ServerLoad load;
};

class Balancer {
 public:
  // Prequal, section 4: probes per request, how many answers are kept and for how long, and the
  // quantile of loads from which on a server is hot. Of the paper's defaults.
  static constexpr uint32_t kProbesPerRequest = 3;
  static constexpr size_t kPool = 16;
  static constexpr Nanos kProbeAge = Nanos::seconds(1);
  static constexpr double kHotQuantile = 0.84;

  static constexpr uint32_t kNone = UINT32_MAX;

  Balancer(Balancing how, uint32_t servers, uint64_t seed);

  // The server of the next request, which has it from now on. `avoid` is one that the request is
  // not to go to if there is another, or kNone.
  uint32_t pick(Instant now, uint32_t avoid);
  // The same for a server that somebody else chose.
  void send(uint32_t server) { ++in_flight_[server]; }
  // The request has an answer, or nobody waits for it any more.
  void ended(uint32_t server) { --in_flight_[server]; }

  bool probes() const { return how_ == Balancing::kPrequal; }
  uint32_t draw() { return prng_.below(servers()); }  // whom to probe
  void learn(const ProbeAnswer& answer, Instant now);

  // In percent; 0 = nothing.
  void learn_weights(std::span<const int> weights);

 private:
  struct Probe {
    ProbeAnswer answer;
    Instant at;
  };

  uint32_t servers() const { return static_cast<uint32_t>(in_flight_.size()); }
  uint32_t choose(Instant now);
  uint32_t least();
  uint32_t by_probes(Instant now);
  uint32_t by_weights();
  void forget_probe(size_t place);

  Balancing how_;
  Prng prng_;
  std::vector<uint32_t> in_flight_;  // requests of this client, by server
  std::vector<int> weights_;
  uint64_t weights_sum_ = 0;
  uint32_t turn_ = 0;
  std::vector<Probe> pool_;  // oldest first
  bool forgets_worst_ = false;
};

}  // namespace rubato::overload
