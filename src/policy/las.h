// SPDX-License-Identifier: Apache-2.0
//
// Least attained service (foreground-background): the request that has been served for the shortest
// time goes first. Knows no sizes, and is the best of all rules that know none where most requests
// are short and a few are very long. Pure; policy/contract.h says when the host calls what.
#pragma once

#include <array>

#include "policy/contract.h"
#include "policy/smallest_first.h"

namespace rubato {

class Las : public SmallestFirst<Las> {
 public:
  static constexpr const char* kName = "las";
  static constexpr const char* kSummary =
      "least attained service first: the request served for the shortest time so far";
  static constexpr const char* kSource =
      "Kleinrock, Queueing Systems vol. 2, 1976, section 4.6; Rai et al., SIGMETRICS 2003";
  static constexpr std::array<QueueDeclaration, 1> kQueues{{
      {.name = "by-age", .scope = Scope::kGlobal, .sharing = Sharing::kShared,
       .order = Order::kByWord},
  }};

  explicit constexpr Las(Config config) : SmallestFirst(config) {}

  static uint64_t measure(const Job& job) { return static_cast<uint64_t>(job.attained.count()); }
};

}  // namespace rubato
