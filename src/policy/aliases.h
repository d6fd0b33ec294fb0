// SPDX-License-Identifier: Apache-2.0
//
// Other names of policies: those under which papers draw, in their figures, what has a name of its
// own here. Programs accept them wherever a policy is named; reports give the policy's own name.
// Pure.
#pragma once

#include <array>
#include <string_view>

namespace rubato {

struct PolicyAlias {
  std::string_view name;
  std::string_view policy;
  std::string_view source;
};

// Shenango asks the hyperthread on the same core before others, of which there is none here, and
// gives and takes cores, which is not the policy's matter.
inline constexpr std::array kPolicyAliases{
    PolicyAlias{"rss", "fcfs", "IX, OSDI 2014; Altocumulus, section VII-A"},
    PolicyAlias{"shenango", "steal", "Shenango, NSDI 2019"},
};

// The own name of the policy that is called so; `name` itself if it is no alias.
constexpr std::string_view policy_called(std::string_view name) {
  for (const PolicyAlias& alias : kPolicyAliases) {
    if (alias.name == name) return alias.policy;
  }
  return name;
}

}  // namespace rubato
