// SPDX-License-Identifier: Apache-2.0
#include "sim/simulate_elastic.h"

#include <optional>
#include <string>
#include <type_traits>

#include "base/option_text.h"
#include "overload/cores/rule.h"
#include "policy/all.h"
#include "sim/engine.h"

namespace rubato::sim {
namespace {

// Policies by which every request is found by any worker, or is where a parked worker leaves it for
// others. A dispatcher or a manager would have to know who is parked.
using ElasticPolicies = TypeList<Cfcfs, Steal, Zygos, Shenango, Darc, Synergy>;

template <Policy P>
Result<Outcome> simulate_policy(const Settings& settings, const Setup& setup, const Watch& watch) {
  typename P::Config config{};
  for (const auto& [name, value] : settings) {
    if (Status set = set_option<P>(config, name, value); !set) return Error{set.error()};
  }
  return Engine<P, ElasticSite>(setup, config, watch).run();
}

template <Policy... Policies>
std::optional<Result<Outcome>> simulate_one_of(TypeList<Policies...>, std::string_view policy,
                                               const Settings& settings, const Setup& setup,
                                               const Watch& watch) {
  std::optional<Result<Outcome>> outcome;
  ((policy == Policies::kName
        ? static_cast<void>(outcome.emplace(simulate_policy<Policies>(settings, setup, watch)))
        : static_cast<void>(0)),
   ...);
  return outcome;
}

template <Policy... Policies>
std::string names_of(TypeList<Policies...>) {
  std::string names;
  ((names += (names.empty() ? "" : ", ") + std::string(Policies::kName)), ...);
  return names;
}

Status check(const Setup& setup) {
  const ElasticSetup& elastic = *setup.elastic;
  const auto rule =
      overload::CoreRule::make(elastic.cores, elastic.cores_settings, setup.workers);
  if (!rule) return Error{rule.error()};
  if (elastic.clients.sessions < 1 || elastic.clients.sessions > ClientSettings::kMostSessions) {
    return Error{"sessions: takes 1 to " + std::to_string(ClientSettings::kMostSessions)};
  }
  if (elastic.guaranteed > setup.workers) return Error{"guaranteed: there are fewer workers"};
  if (setup.costs.dispatcher > Nanos()) {
    return Error{"costs: sessions and cores do not go with a machine that has a dispatcher"};
  }
  return Done{};
}

}  // namespace

Result<Outcome> simulate_elastic(std::string_view policy, const Settings& settings,
                                 const Setup& setup, const Watch& watch) {
  if (Status fit = check(setup); !fit) return Error{fit.error()};
  auto outcome = simulate_one_of(ElasticPolicies{}, policy, settings, setup, watch);
  if (outcome) return std::move(*outcome);
  return Error{"policy: sessions and cores go with " + names_of(ElasticPolicies{}) + ", not '" +
               std::string(policy) + "'"};
}

}  // namespace rubato::sim
