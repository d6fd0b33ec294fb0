// SPDX-License-Identifier: Apache-2.0
#include "planning/candidates.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/name_list.h"
#include "base/option_text.h"
#include "policy/aliases.h"
#include "policy/catalog.h"
#include "sim/piped_policy.h"
#include "sim/policy_names.h"

namespace rubato::planning {
namespace {

std::vector<const char*> option_names(const std::string& policy) {
  std::vector<const char*> names;
  const PolicyInfo* info = find_policy(policy);
  if (info == nullptr) return names;
  for (const OptionDescription& option : info->options) names.push_back(option.name);
  return names;
}

bool has_option(const std::string& policy, const std::string& name) {
  const std::vector<const char*> names = option_names(policy);
  return std::any_of(names.begin(), names.end(), [&](const char* n) { return name == n; });
}

Status check_value(const std::string& policy, const Setting& setting) {
  const PolicyInfo* info = find_policy(policy);
  if (info != nullptr) return info->check_option(setting.name, setting.value);
  if (!sim::is_piped(policy)) return Done{};
  return Error{policy + " has no options: the program behind the pipe has its own"};
}

Error none_has(const std::vector<std::string>& policies, const Setting& setting) {
  std::vector<const char*> known;
  for (const std::string& policy : policies) {
    const std::vector<const char*> names = option_names(policy);
    known.insert(known.end(), names.begin(), names.end());
  }
  std::string text =
      fmt::format("none of {} has an option '{}'", fmt::join(policies, ", "), setting.name);
  const std::string near = closest_name(setting.name, known);
  return Error{near.empty() ? text : text + "; did you mean " + near + "?"};
}

// A setting that does not fit anybody, or not the policies it is for.
Status check_setting(const std::vector<std::string>& policies, const Setting& setting) {
  if (!setting.policy.empty()) {
    const auto found = std::find(policies.begin(), policies.end(), setting.policy);
    if (found != policies.end()) return check_value(setting.policy, setting);
    return Error{fmt::format("{}.{}: {} is not among {}", setting.policy, setting.name,
                             setting.policy, fmt::join(policies, ", "))};
  }
  if (policies.size() == 1) return check_value(policies.front(), setting);
  bool known = false;
  for (const std::string& policy : policies) {
    if (!has_option(policy, setting.name)) continue;
    known = true;
    if (Status fits = check_value(policy, setting); !fits) {
      return Error{"of " + policy + ": " + fits.error()};
    }
  }
  return known ? Status(Done{}) : none_has(policies, setting);
}

sim::Settings settings_of(const std::string& policy, const std::vector<Setting>& settings) {
  sim::Settings own;
  for (const bool single : {false, true}) {
    for (const Setting& setting : settings) {
      const bool meant = single ? setting.policy == policy
                                : setting.policy.empty() && has_option(policy, setting.name);
      if (!meant) continue;
      std::erase_if(own, [&](const auto& other) { return other.first == setting.name; });
      own.emplace_back(setting.name, setting.value);
    }
  }
  return own;
}

}  // namespace

Status check_together(const Candidate& candidate) {
  const PolicyInfo* info = find_policy(candidate.policy);
  return info != nullptr ? info->check_settings(candidate.settings) : Done{};
}

Result<Setting> parse_setting(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    return Error{"takes NAME=VALUE, not '" + text + "'"};
  }
  Setting setting{"", text.substr(0, equals), text.substr(equals + 1)};
  if (const size_t dot = setting.name.find('.'); dot != std::string::npos) {
    setting.policy = setting.name.substr(0, dot);
    setting.name = setting.name.substr(dot + 1);
    if (Status known = sim::check_policy(setting.policy); !known) return Error{known.error()};
    setting.policy = policy_called(setting.policy);
  }
  return setting;
}

Result<std::vector<Candidate>> candidates_of(const std::vector<std::string>& policies,
                                             const std::vector<Setting>& settings) {
  for (const Setting& setting : settings) {
    if (Status fits = check_setting(policies, setting); !fits) return Error{fits.error()};
  }
  std::vector<Candidate> candidates;
  for (const std::string& policy : policies) {
    candidates.push_back({policy, settings_of(policy, settings)});
    if (Status fits = check_together(candidates.back()); !fits) {
      return Error{policies.size() == 1 ? fits.error() : "of " + policy + ": " + fits.error()};
    }
  }
  return candidates;
}

}  // namespace rubato::planning
