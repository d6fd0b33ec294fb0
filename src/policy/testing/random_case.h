// SPDX-License-Identifier: Apache-2.0
//
// RandomCase: a short run of a policy in virtual time whose every setting follows from a seed:
// workers, load, mix, capacity, what goes wrong, the policy's options. `text` says all of it in a
// line. For tests; a plain value.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "base/prng.h"
#include "policy/testing/arrivals.h"
#include "policy/testing/driven.h"

namespace rubato::testing {

struct RandomCase {
  std::vector<Arrival> arrivals;
  DriveOptions options;  // without chaos; its rates are there
  PolicySettings settings;
  std::string text;
};

inline Mix draw_mix(Prng& prng) {
  Mix mix{.jobs = 50 + prng.below(200), .workers = 1 + prng.below(16)};
  mix.load = 0.3 + 1.2 * prng.uniform();
  mix.long_share = 0.3 * prng.uniform();
  mix.short_service = Nanos(100 + prng.below(1'000));
  mix.long_service = mix.short_service * int64_t{1 + prng.below(50)};
  mix.priorities = 1 + prng.below(10);
  mix.flows = 1 + prng.below(100);
  mix.unknown_share = 0.2 * prng.uniform();
  mix.types = 2 + prng.below(prng.below(4) == 0 ? 100 : 8);
  return mix;
}

inline std::string describe(const Mix& mix) {
  char text[160];
  std::snprintf(text, sizeof text,
                "%u jobs, %u workers, load %.2f, %lld ns and %.1f %% of %lld ns, "
                "%u types, %.1f %% unknown",
                mix.jobs, mix.workers, mix.load,
                static_cast<long long>(mix.short_service.count()), 100 * mix.long_share,
                static_cast<long long>(mix.long_service.count()), mix.types,
                100 * mix.unknown_share);
  return text;
}

inline RandomCase draw_case(const Driven& policy, uint64_t seed) {
  Prng prng(seed);
  RandomCase drawn;
  const Mix mix = draw_mix(prng);
  drawn.arrivals = make_arrivals(seed, mix);
  // Room for a batch that is stolen into a queue, at least.
  drawn.options = {.workers = mix.workers,
                   .queue_capacity = size_t{limits::kStealMax} << prng.below(8),
                   .seed = seed};
  drawn.options.rates = {.lost_race = prng.below(500),
                         .short_steal = prng.below(1000),
                         .stale_hint = prng.below(800),
                         .refused_put = prng.below(300)};
  drawn.settings = policy.draw_settings(prng);
  drawn.text = std::string(policy.name) + ", " + describe(mix) + ", queues of " +
               std::to_string(drawn.options.queue_capacity) + as_arguments(drawn.settings);
  return drawn;
}

}  // namespace rubato::testing
