// SPDX-License-Identifier: Apache-2.0
//
// Compiled once per policy (policy/unit.h).
#include "policy/testing/driven.h"

namespace rubato::testing {
namespace {

template <Policy P>
DriveReport drive_with(std::span<const Arrival> arrivals, DriveOptions options,
                       const PolicySettings& settings) {
  return drive<P>(config_of<P>(settings), arrivals, options);
}

template <Policy P>
std::vector<const char*> option_names() {
  std::vector<const char*> names;
  for (const OptionDescription& option : describe<P>()) names.push_back(option.name);
  return names;
}

}  // namespace

template <>
const Driven& driven_policy<RUBATO_POLICY_UNIT>() {
  using P = RUBATO_POLICY;
  static const Driven driven{.name = P::kName,
                             .summary = P::kSummary,
                             .source = P::kSource,
                             .preempts = P::kPreempts,
                             .claims_work_conserving = kClaimsWorkConserving<P>,
                             .may_starve = kClaimsMayStarve<P>,
                             .queues = P::kQueues,
                             .drive = drive_with<P>,
                             .draw_settings = draw_settings<P>,
                             .options = option_names<P>()};
  return driven;
}

}  // namespace rubato::testing
