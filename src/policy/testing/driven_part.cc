// SPDX-License-Identifier: Apache-2.0
//
// Compiled once per part of the list of policies (policy/part.h).
#include "policy/part.h"
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

template <uint32_t kPart>
void add_driven(std::vector<Driven>& all) {
  using Mine = PolicyPart<kPart, RUBATO_POLICY_PARTS>;
  Mine::for_each([&]<class P>(std::type_identity<P>) {
    all.push_back({.name = P::kName,
                   .summary = P::kSummary,
                   .source = P::kSource,
                   .preempts = P::kPreempts,
                   .claims_work_conserving = kClaimsWorkConserving<P>,
                   .may_starve = kClaimsMayStarve<P>,
                   .queues = P::kQueues,
                   .drive = drive_with<P>,
                   .draw_settings = draw_settings<P>,
                   .options = option_names<P>()});
  });
}

template void add_driven<RUBATO_POLICY_PART>(std::vector<Driven>&);

}  // namespace rubato::testing
