// SPDX-License-Identifier: Apache-2.0
//
// PolicyInfo: what is known of a policy by its name, for programs that list policies and check
// their options. They include this and not all.h, so that they are not compiled again when a policy
// changes. Made once; safe on every thread.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/option_text.h"
#include "base/result.h"
#include "policy/contract.h"

namespace rubato {

struct PolicyInfo {
  const char* name;
  const char* summary;
  const char* source;  // paper and section
  Preempts preempts;
  MayStarve may_starve;
  bool serves_live;  // else simulated only
  bool manages;      // has managers that move requests
  std::span<const QueueDeclaration> queues;
  std::vector<OptionDescription> options;
  Status (*check_option)(std::string_view name, std::string_view value);
  // Each of them, and that none voids another.
  Status (*check_settings)(std::span<const std::pair<std::string, std::string>> settings);
};

// In the order of all.h.
std::span<const PolicyInfo> all_policies();

// By name or alias (policy/aliases.h). Null = there is none.
const PolicyInfo* find_policy(std::string_view name);

}  // namespace rubato
