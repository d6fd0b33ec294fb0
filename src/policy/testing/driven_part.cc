// SPDX-License-Identifier: Apache-2.0
//
// Compiled once per part of the list of policies (policy/part.h).
#include "policy/part.h"
#include "policy/testing/driven.h"

namespace rubato::testing {

template <uint32_t kPart>
void add_driven(std::vector<Driven>& all) {
  using Mine = PolicyPart<kPart, RUBATO_POLICY_PARTS>;
  Mine::for_each([&]<class P>(std::type_identity<P>) {
    all.push_back({.name = P::kName,
                   .summary = P::kSummary,
                   .source = P::kSource,
                   .preempts = P::kPreempts,
                   .claims_work_conserving = kClaimsWorkConserving<P>,
                   .queues = P::kQueues,
                   .drive = [](std::span<const Arrival> arrivals, DriveOptions options) {
                     return drive<P>({}, arrivals, options);
                   }});
  });
}

template void add_driven<RUBATO_POLICY_PART>(std::vector<Driven>&);

}  // namespace rubato::testing
