// SPDX-License-Identifier: Apache-2.0
//
// Must not compile: a policy that asks its host for something the contract does not give. The test
// rubato_policy.asks_too_much compiles it and expects the compiler to say so.
#include <array>

#include "policy/archetype.h"

namespace rubato {

struct AsksTooMuch {
  static constexpr const char* kName = "asks_too_much";
  static constexpr const char* kSummary = "";
  static constexpr const char* kSource = "";
  static constexpr Preempts kPreempts = Preempts::kNothing;
  static constexpr std::array<QueueDeclaration, 1> kQueues{{
      {"inbox", Scope::kPerWorker, Sharing::kOwner},
  }};
  using Config = None;
  using Worker = None;
  using Central = None;
  using Plan = None;
  explicit constexpr AsksTooMuch(Config) {}

  template <class H>
  Job* next(Worker&, WorkerId, H& host) const {
    return host.wall_clock() > 0 ? host.take(QueueRef{}) : nullptr;
  }
};

const auto kHooks = instantiate_hooks<AsksTooMuch>();

}  // namespace rubato
