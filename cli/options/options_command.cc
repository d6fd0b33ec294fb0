// SPDX-License-Identifier: Apache-2.0
//
// `rubato options`: every option of the scheduler and of a server, once, with the programs that
// have it; and the same as the tables of docs/OPTIONS.md and the structs of include/rubato.
#include <fmt/format.h>

#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/log_options.h"
#include "base/name_list.h"
#include "cli/common/command_registry.h"
#include "cli/common/scheduler_flags.h"
#include "cli/options/option_code.h"
#include "datapath/server_options.h"
#include "overload/cores/rule.h"
#include "sched/limiter_options.h"
#include "overload/credit_options.h"
#include "sched/options.h"

namespace rubato::cli {
namespace {

std::string hosts_of(const OptionDescription& option) {
  std::string text;
  const auto add = [&](OptionHosts host, const char* name) {
    if ((option.hosts & host) != 0) add_name(text, name);
  };
  add(kServe, "serve");
  add(kSim, "sim");
  add(kTune, "tune");
  add(kLibrary, "library");
  return text;
}

std::string range_of(const OptionDescription& option) {
  if (option.kind == "choice") {
    std::string names;
    for (const OptionChoice& choice : option.choices) add_name(names, choice.name);
    return names;
  }
  if (option.kind == "settings") return "name=value";
  if (option.kind == "text" || option.kind == "flag") return option.kind;
  const bool none = option.kind == "whole number or none";
  return (none ? "none, " : "") + option.low + " .. " + option.high;
}

std::string explained(const OptionDescription& option) {
  std::string text = option.help;
  for (const OptionChoice& choice : option.choices) {
    const bool first = &choice == &option.choices.front();
    text += fmt::format("{} {}: {}", first ? "." : ";", choice.name, choice.help);
  }
  return text;
}

struct OptionGroup {
  std::string title;
  std::vector<OptionDescription> options;
  bool flags;  // else they are settings of the one that the title names
};

std::vector<OptionGroup> sections() {
  std::vector<OptionGroup> all{
      {"The scheduler", describe<SchedulerOptions>(), true},
      {"A server", describe<ServerOptions>(), true},
      {"The log of a server", describe<LogOptions>(), true},
      {"Credits, by --credits-set", describe<overload::CreditOptions>(), false},
  };
  overload::for_each_limiter_rule([&]<class Rule>(std::type_identity<Rule>) {
    all.push_back({fmt::format("--overload {}: {} ({}), by --overload-set", Rule::kName,
                               Rule::kSummary, Rule::kSource),
                   describe<Rule>(), false});
  });
  overload::for_each_allocator([&]<class A>(std::type_identity<A>) {
    all.push_back({fmt::format("--cores {}: {} ({}), by --cores-set", A::kName, A::kSummary,
                               A::kSource),
                   describe<overload::CoreOptions<A>>(), false});
  });
  return all;
}

std::string as_text() {
  std::string text;
  for (const OptionGroup& section : sections()) {
    text += section.title + ":\n";
    for (const OptionDescription& o : section.options) {
      text += fmt::format("  {:<23}{}\n", section.flags ? flag_of(o.name) : o.name, explained(o));
      text += fmt::format("  {:<23}{}{}\n", "", range_of(o),
                          o.default_value.empty() ? "" : "; default " + o.default_value);
    }
  }
  return text;
}

std::string as_markdown() {
  std::string text;
  for (const OptionGroup& section : sections()) {
    text += fmt::format("{}**{}**\n\n", text.empty() ? "" : "\n", section.title);
    text += section.flags ? "| option | takes | default | of | |\n|---|---|---|---|---|\n"
                          : "| setting | takes | default | |\n|---|---|---|---|\n";
    for (const OptionDescription& o : section.options) {
      text += fmt::format("| `{}` | {} | {} |", section.flags ? flag_of(o.name) : o.name,
                          range_of(o), o.default_value);
      text += section.flags ? " " + hosts_of(o) + " |" : "";
      text += fmt::format(" {} |\n", explained(o));
    }
  }
  return text;
}

struct Form {
  const char* name;
  std::string (*text)();
};
constexpr Form kForms[] = {
    {"text", as_text},           {"markdown", as_markdown}, {"c-enums", c_enums},
    {"c-fields", c_fields},      {"c-places", c_places},    {"c++-enums", cpp_enums},
    {"c++-fields", cpp_fields},  {"c++-members", cpp_members}, {"c++-copies", cpp_copies},
};

void add_options(CommandLine& command) {
  auto form = std::make_shared<std::string>("text");
  std::vector<std::string> names;
  for (const Form& known : kForms) names.emplace_back(known.name);
  command.add_choice("--as", *form, names,
                     "As text, as the tables of the documentation, or as code");
  command.action([form] {
    for (const Form& known : kForms) {
      if (known.name == *form) std::fputs(known.text().c_str(), stdout);
    }
    return kDone;
  });
}

const Command kOptions(
    {"", "options", "List the options of the scheduler and of servers, with ranges and defaults",
     add_options});

}  // namespace
}  // namespace rubato::cli
