// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <utility>
#include <vector>

#include "kv_server/commands/helpers.h"
#include "kv_server/commands/table.h"
#include "kv_server/text/glob.h"

namespace rubato::kv {
namespace {

struct FlagName {
  uint32_t flag;
  std::string_view name;
};

constexpr FlagName kFlagNames[] = {
    {kWrite, "write"},     {kReadOnly, "readonly"}, {kDenyOom, "denyoom"}, {kAdmin, "admin"},
    {kNoScript, "noscript"}, {kLoading, "loading"}, {kFast, "fast"},       {kNoAuth, "no_auth"},
};

std::string_view group_name(Group group) {
  switch (group) {
    case Group::kString: return "string";
    case Group::kGeneric: return "generic";
    case Group::kConnection: return "connection";
    case Group::kServer: return "server";
    case Group::kTransactions: return "transactions";
  }
  return "generic";
}

std::vector<std::string_view> flags_of(const Command& command) {
  std::vector<std::string_view> out;
  for (const FlagName& row : kFlagNames) {
    if ((command.flags & row.flag) != 0) out.push_back(row.name);
  }
  return out;
}

std::vector<std::string_view> categories_of(const Command& command) {
  std::vector<std::string_view> out;
  const auto has = [&command](uint32_t flag) { return (command.flags & flag) != 0; };
  if (has(kWrite)) out.push_back("@write");
  if (has(kReadOnly)) out.push_back("@read");
  if (command.group == Group::kString) out.push_back("@string");
  if (command.group == Group::kGeneric) out.push_back("@keyspace");
  if (command.group == Group::kConnection) out.push_back("@connection");
  if (command.group == Group::kTransactions) out.push_back("@transaction");
  if (has(kAdmin)) out.push_back("@admin");
  out.push_back(has(kFast) ? "@fast" : "@slow");
  if (has(kAdmin) || has(kDangerous)) out.push_back("@dangerous");
  return out;
}

// The numbers of all commands that are not subcommands.
std::vector<uint32_t> all_commands() {
  std::vector<uint32_t> out;
  for (uint32_t number = 1; number < command_table().size(); ++number) {
    if (!command_table().is_subcommand(number)) out.push_back(number);
  }
  return out;
}

// A command as it may be named in an argument: "get", "config|get".
uint32_t find_named(std::string_view name) {
  const size_t bar = name.find('|');
  const uint32_t found = command_table().find(name.substr(0, bar));
  if (bar == std::string_view::npos || found == kUnknownCommand) return found;
  return command_table().find_subcommand(found, name.substr(bar + 1));
}

void reply_words(Context& c, const std::vector<std::string_view>& words) {
  c.reply.set(words.size());
  for (const std::string_view word : words) c.reply.simple(word);
}

void reply_key_specs(Context& c, const Command& command) {
  const KeyPositions& keys = command.keys;
  if (keys.first == 0) return c.reply.set(0);
  c.reply.set(1);
  c.reply.map(3);
  c.reply.bulk("flags");
  reply_words(c, {(command.flags & kWrite) != 0 ? "RW" : "RO"});
  c.reply.bulk("begin_search");
  c.reply.map(2);
  c.reply.bulk("type");
  c.reply.bulk("index");
  c.reply.bulk("spec");
  c.reply.map(1);
  c.reply.bulk("index");
  c.reply.integer(keys.first);
  c.reply.bulk("find_keys");
  c.reply.map(2);
  c.reply.bulk("type");
  c.reply.bulk("range");
  c.reply.bulk("spec");
  c.reply.map(3);
  c.reply.bulk("lastkey");
  c.reply.integer(keys.last < 0 ? keys.last : keys.last - keys.first);
  c.reply.bulk("keystep");
  c.reply.integer(keys.step);
  c.reply.bulk("limit");
  c.reply.integer(0);
}

void reply_info(Context& c, uint32_t number) {
  if (number == kUnknownCommand) return c.reply.null();
  const Command& command = command_table()[number];
  c.reply.array(10);
  c.reply.bulk(command_table().full_name(number));
  c.reply.integer(command.arity);
  reply_words(c, flags_of(command));
  c.reply.integer(command.keys.first);
  c.reply.integer(command.keys.last);
  c.reply.integer(command.keys.step);
  reply_words(c, categories_of(command));
  c.reply.array(0);
  reply_key_specs(c, command);
  const std::vector<uint32_t>& subcommands = command_table().subcommands(number);
  c.reply.array(subcommands.size());
  for (const uint32_t sub : subcommands) reply_info(c, sub);
}

void reply_docs(Context& c, uint32_t number) {
  const Command& command = command_table()[number];
  const std::vector<uint32_t>& subcommands = command_table().subcommands(number);
  c.reply.bulk(command_table().full_name(number));
  c.reply.map(subcommands.empty() ? 3 : 4);
  c.reply.bulk("summary");
  c.reply.bulk(command.summary);
  c.reply.bulk("since");
  c.reply.bulk(command.since);
  c.reply.bulk("group");
  c.reply.bulk(group_name(command.group));
  if (subcommands.empty()) return;
  c.reply.bulk("subcommands");
  c.reply.map(subcommands.size());
  for (const uint32_t sub : subcommands) reply_docs(c, sub);
}

void command(Context& c) {
  if (c.argv.size() > 1) {
    return c.error("ERR unknown subcommand '" + std::string(c.argv[1].substr(0, 128)) +
                   "'. Try COMMAND HELP.");
  }
  const std::vector<uint32_t> numbers = all_commands();
  c.reply.array(numbers.size());
  for (const uint32_t number : numbers) reply_info(c, number);
}

void command_count(Context& c) {
  c.reply.integer(static_cast<int64_t>(all_commands().size()));
}

void command_info(Context& c) {
  if (c.argv.size() == 2) {
    const std::vector<uint32_t> numbers = all_commands();
    c.reply.array(numbers.size());
    for (const uint32_t number : numbers) reply_info(c, number);
    return;
  }
  c.reply.array(c.argv.size() - 2);
  for (const std::string_view name : c.argv.subspan(2)) reply_info(c, find_named(name));
}

void command_docs(Context& c) {
  std::vector<uint32_t> numbers;
  if (c.argv.size() == 2) numbers = all_commands();
  for (const std::string_view name : c.argv.subspan(2)) {
    const uint32_t number = find_named(name);
    if (number != kUnknownCommand) numbers.push_back(number);
  }
  c.reply.map(numbers.size());
  for (const uint32_t number : numbers) reply_docs(c, number);
}

bool fits_filter(uint32_t number, std::string_view kind, std::string_view value) {
  if (same_word(kind, "pattern")) {
    return glob_match(value, command_table().full_name(number), GlobCase::kIgnore);
  }
  if (!same_word(kind, "aclcat")) return false;
  for (const std::string_view category : categories_of(command_table()[number])) {
    if (same_word(category.substr(1), value)) return true;
  }
  return false;
}

void command_list(Context& c) {
  const bool filtered = c.argv.size() == 5 && same_word(c.argv[2], "filterby");
  if (c.argv.size() != 2 && !filtered) return c.error(kSyntaxError);
  if (filtered && !same_word(c.argv[3], "module") && !same_word(c.argv[3], "aclcat") &&
      !same_word(c.argv[3], "pattern")) {
    return c.error(kSyntaxError);
  }
  std::vector<uint32_t> numbers;
  for (uint32_t number = 1; number < command_table().size(); ++number) {
    if (!filtered || fits_filter(number, c.argv[3], c.argv[4])) numbers.push_back(number);
  }
  c.reply.array(numbers.size());
  for (const uint32_t number : numbers) c.reply.bulk(command_table().full_name(number));
}

void command_getkeys(Context& c) {
  const auto argv = c.argv.subspan(2);
  const uint32_t number = command_table().resolve(argv);
  if (number == kUnknownCommand) return c.error("ERR Invalid command specified");
  const Command& of = command_table()[number];
  if (of.keys.first == 0) return c.error("ERR The command has no key arguments");
  if (!arity_fits(of, argv.size())) {
    return c.error("ERR Invalid number of arguments specified for command");
  }
  const auto first = static_cast<size_t>(of.keys.first);
  const size_t last = of.keys.last < 0 ? argv.size() - 1 : static_cast<size_t>(of.keys.last);
  const auto step = static_cast<size_t>(of.keys.step);
  c.reply.array((last - first) / step + 1);
  for (size_t i = first; i <= last; i += step) c.reply.bulk(argv[i]);
}

constexpr uint32_t kTell = kControl | kLoading;
constexpr Group kGroup = Group::kServer;

constexpr Command kCommands[] = {
    {"command", -1, kTell, {}, command, kGroup, "2.8.13", "All commands", {}},
    {"count", 2, kTell, {}, command_count, kGroup, "2.8.13", "How many there are", "command"},
    {"info", -2, kTell, {}, command_info, kGroup, "2.8.13", "About commands, for programs",
     "command"},
    {"docs", -2, kTell, {}, command_docs, kGroup, "7.0.0", "About commands, for people",
     "command"},
    {"list", -2, kTell, {}, command_list, kGroup, "7.0.0",
     "Names; option FILTERBY MODULE|ACLCAT|PATTERN value", "command"},
    {"getkeys", -4, kTell, {}, command_getkeys, kGroup, "2.8.13",
     "Which arguments of a request are keys", "command"},
    {"help", 2, kTell, {}, reply_help, kGroup, "5.0.0", "This help", "command"},
};

}  // namespace

std::span<const Command> introspection_commands() { return kCommands; }

void reply_help(Context& c) {
  const CommandTable& table = command_table();
  const std::vector<uint32_t>& rows = table.subcommands(table.find(c.argv[0]));
  c.reply.array(1 + rows.size() * 2);
  c.reply.simple(upper_case(c.argv[0]) +
                 " <subcommand> [<arg> [value] [opt] ...]. Subcommands are:");
  for (const uint32_t number : rows) {
    c.reply.simple(upper_case(table[number].name));
    c.reply.simple("    " + std::string(table[number].summary) + ".");
  }
}

}  // namespace rubato::kv
