// SPDX-License-Identifier: Apache-2.0
#include "policy/catalog.h"

#include <algorithm>

#include "policy/aliases.h"
#include "policy/all.h"
#include "policy/extensions.h"

namespace rubato {
namespace {

template <Policy P>
Status check_option(std::string_view name, std::string_view value) {
  typename P::Config config{};
  return set_option<P>(config, name, value);
}

template <Policy P>
Status check_settings(std::span<const std::pair<std::string, std::string>> settings) {
  const Result<typename P::Config> config = read_options<P>(settings);
  return config.ok() ? Status(Done{}) : Status(Error{config.error()});
}

std::vector<PolicyInfo> describe_all() {
  std::vector<PolicyInfo> all;
  for_each_policy([&]<class P>(std::type_identity<P>) {
    all.push_back({.name = P::kName,
                   .summary = P::kSummary,
                   .source = P::kSource,
                   .preempts = P::kPreempts,
                   .may_starve = kClaimsMayStarve<P>,
                   .serves_live = kServesLive<P>,
                   .manages = kManages<P>,
                   .queues = P::kQueues,
                   .options = describe<P>(),
                   .check_option = check_option<P>,
                   .check_settings = check_settings<P>});
  });
  return all;
}

}  // namespace

std::span<const PolicyInfo> all_policies() {
  static const std::vector<PolicyInfo> all = describe_all();
  return all;
}

const PolicyInfo* find_policy(std::string_view name) {
  const std::span<const PolicyInfo> all = all_policies();
  const auto found = std::find_if(all.begin(), all.end(), [&](const PolicyInfo& policy) {
    return policy_called(name) == policy.name;
  });
  return found != all.end() ? &*found : nullptr;
}

}  // namespace rubato
