// SPDX-License-Identifier: Apache-2.0
//
// Compiled once per policy (policy/unit.h).
#include "sim/sim_policy.h"

#include "base/option_text.h"
#include "sim/elastic_server.h"
#include "sim/engine.h"
#include "sim/static_server.h"

namespace rubato::sim {
namespace {

template <Policy P, class Server>
Result<Outcome> simulate_on(const Settings& settings, const Setup& setup, const Watch& watch) {
  Result<typename P::Config> config = read_options<P>(settings);
  if (!config) return Error{config.error()};
  return Engine<P, Server>(setup, *config, watch).run();
}

template <Policy P>
constexpr SimPolicy entry() {
  if constexpr (kGoesElastic<P>) {
    return {P::kName, simulate_on<P, StaticServer>, simulate_on<P, ElasticServer>};
  }
  return {P::kName, simulate_on<P, StaticServer>, nullptr};
}

}  // namespace

template <>
const SimPolicy& sim_policy<RUBATO_POLICY_UNIT>() {
  static constexpr SimPolicy kEntry = entry<RUBATO_POLICY>();
  return kEntry;
}

}  // namespace rubato::sim
