// SPDX-License-Identifier: Apache-2.0
//
// Compiled once per part of the list of policies (policy/part.h).
#include "sim/simulate_part.h"

#include "base/option_text.h"
#include "policy/part.h"
#include "sim/engine.h"

namespace rubato::sim {
namespace {

template <Policy P>
Result<Outcome> simulate_policy(const Settings& settings, const Setup& setup, const Watch& watch) {
  typename P::Config config{};
  for (const auto& [name, value] : settings) {
    if (Status set = set_option<P>(config, name, value); !set) return Error{set.error()};
  }
  return Engine<P>(setup, config, watch).run();
}

}  // namespace

template <uint32_t kPart>
std::optional<Result<Outcome>> simulate_part(std::string_view policy, const Settings& settings,
                                             const Setup& setup, const Watch& watch) {
  std::optional<Result<Outcome>> outcome;
  using Mine = PolicyPart<kPart, RUBATO_POLICY_PARTS>;
  Mine::with(policy, [&]<class P>(std::type_identity<P>) {
    outcome.emplace(simulate_policy<P>(settings, setup, watch));
  });
  return outcome;
}

template std::optional<Result<Outcome>> simulate_part<RUBATO_POLICY_PART>(std::string_view,
                                                                          const Settings&,
                                                                          const Setup&,
                                                                          const Watch&);

}  // namespace rubato::sim
