// SPDX-License-Identifier: Apache-2.0
//
// MULTI, EXEC, DISCARD, WATCH, UNWATCH. From MULTI on KvApplication::run queues what a connection
// sends, and EXEC runs all of it in one step with the store to itself (Engine::exclusively),
// without preemption; so commands that take long are refused when they are queued. Clients send the
// commands of a transaction without waiting for the reply to MULTI: if that is refused for
// overload, they must not run on their own.
#include <optional>

#include "kv_server/commands/helpers.h"
#include "kv_server/commands/table.h"
#include "mechanism/clock/clock.h"

namespace rubato::kv {
namespace {

void multi(Context& c) {
  if (c.session.transaction() != nullptr) return c.error("ERR MULTI calls can not be nested");
  c.session.begin_transaction();
  c.reply.ok();
}

// The key as it is now.
Watched look_at(Engine& engine, std::string_view key, Outcome& outcome) {
  Watched seen{std::string(key)};
  outcome = engine.update(key, [&](const Current& current) {
    seen.exists = current.exists;
    seen.version = current.exists ? current.version : current.creations;
    seen.expires_at_ms = current.expires_at_ms;
    return Change::keep();
  });
  return seen;
}

bool is_unchanged(Engine& engine, const Watched& watched) {
  Outcome outcome = Outcome::kDone;
  const Watched now = look_at(engine, watched.key, outcome);
  return outcome != Outcome::kFailed && now.exists == watched.exists &&
         now.version == watched.version && now.expires_at_ms == watched.expires_at_ms;
}

void run_queued(Context& c, const Transaction& transaction) {
  const CommandTable& table = command_table();
  c.reply.array(transaction.size());
  transaction.for_each([&](uint32_t type, std::span<const std::string_view> argv) {
    const Command& command = table[type];
    Context queued{c.server, c.engine, c.session, c.request, command, type, argv,
                   Reply(*c.request.reply, c.session.version())};
    const Instant begun = now();
    command.handler(queued);
    c.server.calls().run_queued(type, now() - begun);
  });
}

// Redis ends the transaction even where EXEC itself is wrong, hence the arity.
void exec(Context& c) {
  const auto transaction = c.session.end_transaction();
  const std::vector<Watched> watched = c.session.take_watched();
  if (c.argv.size() > 1) {
    return c.error(
        "EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command");
  }
  if (transaction == nullptr) return c.error("ERR EXEC without MULTI");
  if (transaction->aborted()) {
    return c.error("EXECABORT Transaction discarded because of previous errors.");
  }
  if (transaction->grows() && c.engine.is_full()) {
    return c.error("EXECABORT Transaction discarded because of: " + std::string(kNoMemoryForData));
  }
  bool unchanged = true;
  const uint64_t mark = c.request.reply->mark();
  // Begins with the engine's locks held and ends after them: a preemption that was put off is made
  // up for where it ends.
  std::optional<NoPreempt> in_one_step;
  const Outcome outcome = c.engine.exclusively([&] {
    in_one_step.emplace();
    for (const Watched& key : watched) unchanged = unchanged && is_unchanged(c.engine, key);
    if (unchanged) run_queued(c, *transaction);
  });
  in_one_step.reset();
  if (!unchanged) return c.reply.null_array();
  if (outcome == Outcome::kDone) return;
  if (!c.request.reply->take_back(mark)) c.request.close_after = true;
  c.good(outcome);
}

void discard(Context& c) {
  if (c.session.transaction() == nullptr) return c.error("ERR DISCARD without MULTI");
  c.session.end_transaction();
  c.session.take_watched();
  c.reply.ok();
}

void watch(Context& c) {
  if (c.session.transaction() != nullptr) return c.error("ERR WATCH inside MULTI is not allowed");
  for (const std::string_view key : c.argv.subspan(1)) {
    Outcome outcome = Outcome::kDone;
    const Watched seen = look_at(c.engine, key, outcome);
    if (!c.good(outcome)) return;
    if (!c.session.watch(seen)) return c.error("OOM no memory to watch more keys");
  }
  c.reply.ok();
}

void unwatch(Context& c) {
  c.session.take_watched();
  c.reply.ok();
}

// Of MULTI's kin all but EXEC are for the control plane, as they cost nothing.
constexpr uint32_t kMark = kFast | kControl | kNoScript | kRunsInMulti;
constexpr Group kGroup = Group::kTransactions;

constexpr Command kCommands[] = {
    {"multi", 1, kMark, {}, multi, kGroup, "1.2.0", "Queues the commands up to EXEC", {}},
    {"exec", -1, kNoScript | kRunsInMulti, {}, exec, kGroup, "1.2.0",
     "Runs what was queued since MULTI in one step, unless a watched key has changed", {}},
    {"discard", 1, kMark, {}, discard, kGroup, "2.0.0", "Drops what was queued since MULTI", {}},
    {"watch", -2, kFast | kNoScript | kRunsInMulti, {1, -1, 1}, watch, kGroup, "2.2.0",
     "EXEC does nothing if one of the keys changes until then", {}},
    {"unwatch", 1, kFast | kControl | kNoScript, {}, unwatch, kGroup, "2.2.0",
     "Watches no key any more", {}},
};

}  // namespace

std::span<const Command> transaction_commands() { return kCommands; }

}  // namespace rubato::kv
