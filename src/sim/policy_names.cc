// SPDX-License-Identifier: Apache-2.0
#include "sim/policy_names.h"

#include <algorithm>

#include "base/name_list.h"
#include "policy/aliases.h"
#include "policy/catalog.h"
#include "sim/piped_policy.h"

namespace rubato::sim {
namespace {

std::vector<std::string> all_names() {
  std::vector<std::string> names;
  for (const PolicyInfo& policy : all_policies()) names.emplace_back(policy.name);
  return names;
}

}  // namespace

Status check_policy(const std::string& name) {
  if (find_policy(name) != nullptr || is_piped(name)) return Done{};
  std::string known;
  for (const std::string& one : all_names()) known += (known.empty() ? "" : ", ") + one;
  return Error{"takes one of " + known + "; not '" + name + "'"};
}

Status parse_policies(const std::string& text, std::vector<std::string>& names) {
  names = text == "all" ? all_names() : split(text, ',');
  if (names.empty()) return Error{"takes names of policies, P1,P2,..., or all; not ''"};
  for (size_t i = 0; i < names.size(); ++i) {
    if (Status known = check_policy(names[i]); !known) return known;
    names[i] = policy_called(names[i]);
    const auto before = names.begin() + static_cast<ptrdiff_t>(i);
    if (std::find(names.begin(), before, names[i]) == before) continue;
    return Error{"names " + names[i] + " twice"};
  }
  return Done{};
}

}  // namespace rubato::sim
