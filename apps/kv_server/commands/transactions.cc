// SPDX-License-Identifier: Apache-2.0
//
// MULTI and its kin, which are refused: there are no transactions. Clients send the commands of a
// transaction without waiting for the reply to MULTI, so these must not run on their own: from the
// refused MULTI on the connection runs nothing (KvApplication::run) until EXEC, DISCARD or RESET.
#include "kv_server/commands/helpers.h"

namespace rubato::kv {
namespace {

void multi(Context& c) {
  if (c.session.refuses_transaction()) return c.error("ERR MULTI calls can not be nested");
  c.session.set_refuses_transaction(true);
  c.error("ERR MULTI is refused, as this server has no transactions; no command up to EXEC or "
          "DISCARD is run");
}

// Redis ends the transaction even where EXEC itself is wrong, hence the arity.
void exec(Context& c) {
  if (c.argv.size() > 1) {
    c.session.set_refuses_transaction(false);
    return c.error(
        "EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command");
  }
  if (!c.session.refuses_transaction()) return c.error("ERR EXEC without MULTI");
  c.session.set_refuses_transaction(false);
  c.error("EXECABORT Transaction discarded because of previous errors.");
}

void discard(Context& c) {
  if (!c.session.refuses_transaction()) return c.error("ERR DISCARD without MULTI");
  c.session.set_refuses_transaction(false);
  c.reply.ok();
}

void watch(Context& c) { c.error("ERR WATCH is refused, as this server has no transactions"); }

// No key is ever watched.
void unwatch(Context& c) { c.reply.ok(); }

constexpr uint32_t kMark = kFast | kControl | kNoScript | kRunsRefused;
constexpr Group kGroup = Group::kTransactions;

constexpr Command kCommands[] = {
    {"multi", 1, kMark, {}, multi, kGroup, "1.2.0",
     "Refused: there are no transactions, and nothing runs until EXEC or DISCARD", {}},
    {"exec", -1, kMark, {}, exec, kGroup, "1.2.0", "Ends a refused transaction with an error", {}},
    {"discard", 1, kMark, {}, discard, kGroup, "2.0.0", "Ends a refused transaction", {}},
    {"watch", -2, kFast | kControl | kNoScript, {1, -1, 1}, watch, kGroup, "2.2.0",
     "Refused: there are no transactions", {}},
    {"unwatch", 1, kFast | kControl | kNoScript, {}, unwatch, kGroup, "2.2.0",
     "Does nothing, as nothing can be watched", {}},
};

}  // namespace

std::span<const Command> transaction_commands() { return kCommands; }

}  // namespace rubato::kv
