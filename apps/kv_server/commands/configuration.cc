// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "kv_server/commands/helpers.h"

namespace rubato::kv {
namespace {

void config_get(Context& c) {
  const Config::Pairs found = c.server.config().get(c.argv.subspan(2));
  c.reply.map(found.size());
  for (const auto& [name, value] : found) {
    c.reply.bulk(name);
    c.reply.bulk(value);
  }
}

void config_set(Context& c) {
  if (c.argv.size() % 2 == 1) return c.error(kSyntaxError);
  const std::string problem = c.server.config().set(c.argv.subspan(2));
  if (!problem.empty()) return c.error(problem);
  c.reply.ok();
}

void config_resetstat(Context& c) {
  c.server.reset_statistics();
  c.reply.ok();
}

void config_rewrite(Context& c) { c.error("ERR The server is running without a config file"); }

constexpr uint32_t kManage = kControl | kAdmin | kNoScript;
constexpr Group kGroup = Group::kServer;

constexpr Command kCommands[] = {
    {"config", -2, kManage, {}, nullptr, kGroup, "2.0.0", "About parameters", {}},
    {"get", -3, kManage, {}, config_get, kGroup, "2.0.0",
     "Parameters by names or glob patterns", "config"},
    {"set", -4, kManage, {}, config_set, kGroup, "2.0.0", "Sets parameters, all or none",
     "config"},
    {"resetstat", 2, kManage, {}, config_resetstat, kGroup, "2.0.0", "Starts counting afresh",
     "config"},
    {"rewrite", 2, kManage, {}, config_rewrite, kGroup, "2.8.0",
     "Not available: the configuration file is the operator's", "config"},
    {"help", 2, kManage, {}, reply_help, kGroup, "5.0.0", "This help", "config"},
};

}  // namespace

std::span<const Command> config_commands() { return kCommands; }

}  // namespace rubato::kv
