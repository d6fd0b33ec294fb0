// SPDX-License-Identifier: Apache-2.0
//
// rubato policies: every policy there is, with its source and options, as text, Markdown (the table
// of docs/) or JSON. All of it comes from policy/all.h.
#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>

#include "base/option_text.h"
#include "cli/common/command_registry.h"
#include "policy/aliases.h"
#include "policy/catalog.h"

namespace rubato::cli {
namespace {

// The summary of a policy, with a note if it is simulated only.
std::string description(const PolicyInfo& policy) {
  return std::string(policy.summary) + (policy.serves_live ? "" : " (simulated only)");
}

std::string as_text(std::span<const PolicyInfo> policies) {
  std::string text;
  for (const PolicyInfo& policy : policies) {
    text += fmt::format("{}\n    {}\n    from: {}\n", policy.name, description(policy),
                        policy.source);
    for (const OptionDescription& option : policy.options) {
      const std::string range = fmt::format("{} {}..{}", option.kind, option.low, option.high);
      text += fmt::format("    --set {:<38}{} ({})\n",
                          fmt::format("{}={}", option.name, option.default_value), option.help,
                          option.kind == "flag" ? option.kind : range);
    }
    text += "\n";
  }
  for (const PolicyAlias& alias : kPolicyAliases) {
    text += fmt::format("{}\n    alias of {}\n    from: {}\n\n", alias.name, alias.policy,
                        alias.source);
  }
  return text;
}

// A cell must not end early.
std::string cell(std::string text) {
  for (size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2)
    text.insert(at, "\\");
  return text;
}

std::string as_markdown(std::span<const PolicyInfo> policies) {
  std::string text = "| policy | what it does | from |\n|---|---|---|\n";
  for (const PolicyInfo& policy : policies) {
    text += fmt::format("| `{}` | {} | {} |\n", policy.name, cell(description(policy)),
                        cell(policy.source));
  }
  for (const PolicyAlias& alias : kPolicyAliases) {
    text += fmt::format("| `{}` | alias of `{}` | {} |\n", alias.name, alias.policy, alias.source);
  }
  for (const PolicyInfo& policy : policies) {
    if (policy.options.empty()) continue;
    text += fmt::format("\n**Options of `{}`** (`--set NAME=VALUE`)\n\n", policy.name);
    text += "| option | default | takes | meaning |\n|---|---|---|---|\n";
    for (const OptionDescription& o : policy.options) {
      const std::string takes =
          o.kind == "flag" ? o.kind : fmt::format("{}, {} to {}", o.kind, o.low, o.high);
      text +=
          fmt::format("| `{}` | {} | {} | {} |\n", o.name, o.default_value, takes, cell(o.help));
    }
  }
  return text;
}

const char* name_of(Preempts preempts) {
  switch (preempts) {
    case Preempts::kNothing: return "nothing";
    case Preempts::kLong: return "long";
    case Preempts::kEverything: return "everything";
  }
  return "?";
}

const char* name_of(MayStarve may_starve) {
  switch (may_starve) {
    case MayStarve::kNobody: return "nobody";
    case MayStarve::kUnknown: return "unknown types";
    case MayStarve::kLong: return "all but the shortest type";
  }
  return "?";
}

const char* name_of(Sharing sharing) {
  switch (sharing) {
    case Sharing::kOwner: return "owner";
    case Sharing::kStealable: return "stealable";
    case Sharing::kShared: return "shared";
    case Sharing::kManaged: return "managed";
  }
  return "?";
}

std::string as_json(std::span<const PolicyInfo> policies) {
  auto list = nlohmann::ordered_json::array();
  for (const PolicyInfo& policy : policies) {
    auto options = nlohmann::ordered_json::array();
    for (const OptionDescription& o : policy.options) {
      options.push_back({{"name", o.name},
                         {"help", o.help},
                         {"kind", o.kind},
                         {"low", o.low},
                         {"high", o.high},
                         {"default", o.default_value}});
    }
    auto queues = nlohmann::ordered_json::array();
    for (const QueueDeclaration& queue : policy.queues) {
      queues.push_back({{"name", queue.name},
                        {"sharing", name_of(queue.sharing)},
                        {"order", queue.order == Order::kFifo ? "fifo" : "by word"}});
    }
    auto aliases = nlohmann::ordered_json::array();
    for (const PolicyAlias& alias : kPolicyAliases) {
      if (alias.policy == policy.name) aliases.push_back(alias.name);
    }
    list.push_back({{"name", policy.name},
                    {"aliases", std::move(aliases)},
                    {"summary", policy.summary},
                    {"source", policy.source},
                    {"simulated_only", !policy.serves_live},
                    {"preempts", name_of(policy.preempts)},
                    {"may_starve", name_of(policy.may_starve)},
                    {"queues", std::move(queues)},
                    {"options", std::move(options)}});
  }
  return list.dump(1) + "\n";
}

void add_policies(CommandLine& command) {
  auto markdown = std::make_shared<bool>(false);
  auto json = std::make_shared<bool>(false);
  const Option as_table =
      command.add_flag("--markdown", *markdown, "As the tables of the documentation");
  command.add_flag("--json", *json, "As JSON").excludes(as_table);
  command.action([markdown, json] {
    const std::span<const PolicyInfo> entries = all_policies();
    const std::string text = *markdown ? as_markdown(entries)
                             : *json   ? as_json(entries)
                                       : as_text(entries);
    std::fputs(text.c_str(), stdout);
    return kDone;
  });
}

const Command kPolicies(
    {"", "policies", "List the scheduling policies and their options", add_policies});

}  // namespace
}  // namespace rubato::cli
