// SPDX-License-Identifier: Apache-2.0
//
// Driven: one policy of all.h as tests over every policy see it: what it says of itself, and
// drive<P> behind a pointer, so that such a test is compiled once and not once per policy. For
// tests, single-threaded.
#pragma once

#include <ostream>
#include <span>
#include <vector>

#include "policy/contract.h"
#include "policy/testing/drive.h"
#include "policy/testing/random_settings.h"

namespace rubato::testing {

struct Driven {
  const char* name;
  const char* summary;
  const char* source;
  Preempts preempts;
  bool claims_work_conserving;
  MayStarve may_starve;
  std::span<const QueueDeclaration> queues;
  DriveReport (*drive)(std::span<const Arrival> arrivals, DriveOptions options,
                       const PolicySettings& settings);
  PolicySettings (*draw_settings)(Prng& prng);
  std::vector<const char*> options;  // by name

  friend void PrintTo(const Driven& driven, std::ostream* out) { *out << driven.name; }
};

// Each in a unit of its own (policy/unit.h).
template <uint32_t kUnit>
const Driven& driven_policy();

// Every policy of all.h, once.
std::vector<Driven> all_driven();

}  // namespace rubato::testing
