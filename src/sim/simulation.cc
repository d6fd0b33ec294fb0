// SPDX-License-Identifier: Apache-2.0
#include "sim/simulation.h"

#include <optional>

#include "base/limits.h"
#include "policy/part.h"
#include "sim/alarms.h"
#include "sim/simulate_elastic.h"
#include "sim/simulate_part.h"
#include "sim/stalls.h"

namespace rubato::sim {
namespace {

Status check(const Setup& setup) {
  if (Status fit = validate(setup.workload); !fit) return fit;
  if (setup.workers < 1 || setup.workers > limits::kMaxWorkers) {
    return Error{"workers: takes 1 to " + std::to_string(limits::kMaxWorkers)};
  }
  if (Status fit = check_stalls(setup.costs.stalls); !fit) return fit;
  if (setup.requests < 1) return Error{"requests: takes 1 or more"};
  if (!(setup.warmup >= 0 && setup.warmup < 1)) return Error{"warmup: takes a share below 1"};
  const double seconds = static_cast<double>(setup.requests) / mean_rate(setup.workload);
  const double longest = static_cast<double>(Alarms::kLatestNs) / 2e9;
  if (seconds > longest) return Error{"requests: more than 52 days of simulated time at this rate"};
  return Done{};
}

}  // namespace

Result<Outcome> simulate(std::string_view policy, const Settings& settings, const Setup& setup,
                         const Watch& watch) {
  if (Status fit = check(setup); !fit) return Error{fit.error()};
  if (setup.elastic) return simulate_elastic(policy, settings, setup, watch);
  std::optional<Result<Outcome>> outcome;
  for_each_policy_part<RUBATO_POLICY_PARTS>([&]<uint32_t kPart>(PolicyPartNumber<kPart>) {
    if (!outcome) outcome = simulate_part<kPart>(policy, settings, setup, watch);
  });
  if (!outcome) return Error{"policy: there is no '" + std::string(policy) + "'"};
  return std::move(*outcome);
}

}  // namespace rubato::sim
