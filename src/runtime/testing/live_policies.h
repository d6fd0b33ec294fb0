// SPDX-License-Identifier: Apache-2.0
//
// For tests over every policy that serves live: its name, and settings of it at random.
#pragma once

#include <ostream>
#include <string>
#include <type_traits>
#include <vector>

#include "base/prng.h"
#include "policy/all.h"
#include "policy/archetype.h"
#include "policy/testing/random_settings.h"

namespace rubato::testing {

struct LivePolicy {
  const char* name;
  PolicySettings (*draw_settings)(Prng& prng);
  // Of all workers: what waits in its global queues every worker may take, whatever it runs.
  bool shares_queues;
  // Every worker takes over what waits at another one.
  bool helps;
  // Of each worker: no other one takes what waits there.
  std::vector<std::string> own_queues = {};

  friend void PrintTo(const LivePolicy& policy, std::ostream* out) { *out << policy.name; }
};

// With a policy's own settings. Synergy asks only for workers that a setting reserves.
template <Policy P>
LivePolicy live_policy() {
  const bool every_worker = requires { &internal::Named<P>::may_serve; } ||
                            std::is_same_v<P, Synergy>;
  LivePolicy policy{P::kName, draw_settings<P>, every_worker, every_worker};
  for (const QueueDeclaration& queue : P::kQueues) {
    const bool taken_by_others = queue.sharing == Sharing::kStealable;
    policy.helps &= queue.scope == Scope::kGlobal || taken_by_others;
    if (queue.scope == Scope::kPerWorker && !taken_by_others) {
      policy.own_queues.emplace_back(queue.name);
    }
  }
  return policy;
}

inline std::vector<LivePolicy> all_live() {
  std::vector<LivePolicy> all;
  for_each_policy([&]<class P>(std::type_identity<P>) {
    if (kServesLive<P>) all.push_back(live_policy<P>());
  });
  return all;
}

}  // namespace rubato::testing
