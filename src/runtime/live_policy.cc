// SPDX-License-Identifier: Apache-2.0
//
// Compiled once per policy (policy/unit.h).
#include "runtime/live_policy.h"

#include <string>
#include <utility>
#include <vector>

#include "base/option_text.h"
#include "runtime/live_runtime.h"

namespace rubato {
namespace {

template <Policy P>
Result<std::unique_ptr<PolicyRuntime>> create(const RuntimeOptions& options,
                                              std::vector<uint32_t> cpus, HostState& host_state,
                                              Datapath& datapath, Application& application) {
  Result<typename P::Config> config = read_options<P>(options.policy_settings);
  if (!config) return Error{"set: " + config.error()};
  return std::unique_ptr<PolicyRuntime>(std::make_unique<LiveRuntime<P>>(
      P(*config), options, std::move(cpus), host_state, datapath, application));
}

template <Policy P>
constexpr LivePolicy entry() {
  if constexpr (kServesLive<P>) return {P::kName, create<P>};
  return {P::kName, nullptr};
}

}  // namespace

template <>
const LivePolicy& live_policy<RUBATO_POLICY_UNIT>() {
  static constexpr LivePolicy kEntry = entry<RUBATO_POLICY>();
  return kEntry;
}

}  // namespace rubato
