// SPDX-License-Identifier: Apache-2.0
//
// Shortest remaining processing time: the request that needs the least more goes first. No other
// rule has a smaller mean response time. Pure; policy/contract.h says when the host calls what.
//
// What is left is the job's size hint minus what it has attained. A request that takes longer than
// its hint is taken to be about as far from its end as it is beyond the hint: just beyond, it is
// nearly done; far beyond, the hint was wrong, and it must not hold up all others. Requests without
// a hint come when no other waits, in the order in which they were put.
#pragma once

#include <array>

#include "policy/contract.h"
#include "policy/smallest_first.h"

namespace rubato {

class Srpt : public SmallestFirst<Srpt> {
 public:
  static constexpr const char* kName = "srpt";
  static constexpr const char* kSummary =
      "shortest remaining processing time first, by the size hints of requests";
  static constexpr const char* kSource = "Schrage, Operations Research 16, 1968";
  static constexpr bool kUsesSizes = true;
  static constexpr std::array<QueueDeclaration, 1> kQueues{{
      {.name = "by-rest", .scope = Scope::kGlobal, .sharing = Sharing::kShared,
       .order = Order::kByWord},
  }};

  explicit constexpr Srpt(Config config) : SmallestFirst(config) {}

  static uint64_t measure(const Job& job) {
    if (job.size_hint == Nanos()) return kUnknown;
    const int64_t left = (job.size_hint - job.attained).count();
    return static_cast<uint64_t>(left < 0 ? -left : left);
  }

 private:
  static constexpr uint64_t kUnknown = kNoWord - 1;
};

}  // namespace rubato
