// SPDX-License-Identifier: Apache-2.0
#include "kv_server/server/application.h"

#include <algorithm>
#include <new>

#include "kv_server/memcached/session.h"
#include "kv_server/rpc/session.h"
#include "kv_server/server/protected_mode.h"
#include "kv_server/text/words.h"
#include "runtime/slow_requests.h"

namespace rubato::kv {
namespace {

constexpr int64_t kMillisPerSecond = 1000;
constexpr size_t kMaxShownBytes = 128;  // of a client's words in an error text
constexpr std::string_view kNoDebug =
    "ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you "
    "can run it from a local connection, otherwise you need to set this option in the "
    "configuration file, and then restart the server.";
constexpr std::string_view kNotInTransaction =
    "ERR Command not allowed inside a transaction, as all other requests would wait for it";
constexpr std::string_view kNotRun = "ERR not run: MULTI was refused; EXEC or DISCARD ends it";

// A web browser that was led to this port must not get commands through by its headers.
bool is_http(std::string_view name) { return same_word(name, "post") || same_word(name, "host:"); }

std::string unknown_text(const CommandTable& table, uint32_t type,
                         std::span<const std::string_view> argv) {
  if (table.is_container(type)) {
    return "ERR unknown subcommand '" + std::string(argv[1].substr(0, kMaxShownBytes)) +
           "'. Try " + upper_case(argv[0]) + " HELP.";
  }
  std::string args;
  for (size_t i = 1; i < argv.size() && args.size() < kMaxShownBytes; ++i) {
    args += "'" + std::string(argv[i].substr(0, kMaxShownBytes - args.size())) + "' ";
  }
  return "ERR unknown command '" + std::string(argv[0].substr(0, kMaxShownBytes)) +
         "', with args beginning with: " + args;
}

// Passwords do not go into the slow log.
void redact(std::string_view command, std::vector<std::string>& argv) {
  size_t hidden = command == "auth" ? argv.size() : 0;  // of the arguments that follow
  for (size_t i = 1; i < argv.size(); ++i) {
    if (hidden > 0) {
      argv[i] = "(redacted)";
      --hidden;
    } else if (command == "hello" && same_word(argv[i], "auth")) {
      hidden = 2;
    } else if (command == "config|set" && same_word(argv[i], "requirepass")) {
      hidden = 1;
    }
  }
}

}  // namespace

void Context::error(std::string_view text) {
  server.calls().fail(type);
  server.errors().count(text);
  reply.error(text);
}

void Context::refuse(std::string_view text) {
  server.calls().refuse(type);
  server.errors().count(text);
  reply.error(text);
}

bool Context::good(Outcome outcome) {
  switch (outcome) {
    case Outcome::kDone:
    case Outcome::kNone:
      return true;
    case Outcome::kOutOfMemory:
      refuse(kNoMemoryForData);
      return false;
    case Outcome::kFailed:
      error("IOERR " + engine.error());
      return false;
    case Outcome::kCancelled:
      return false;
  }
  return false;
}

KvApplication::KvApplication(Engine& engine, const KvOptions& options,
                             rpc::AdmissionController* admission)
    : server_(engine, options), admission_(admission), table_(&command_table()) {}

std::unique_ptr<Session> KvApplication::open(const Peer& peer) {
  switch (server_.options().ports[peer.port]) {
    case Speaks::kMemcached: return std::make_unique<MemcachedConnection>(server_, peer);
    case Speaks::kRpc: return std::make_unique<RpcKvSession>(server_, peer, *admission_);
    case Speaks::kResp: break;
  }
  return std::make_unique<KvSession>(server_, peer);
}

std::string KvApplication::refusal_for(const Peer& peer) {
  if (!server_.config().is_protected() || is_loopback(peer.address)) return {};
  return protected_mode_answer(server_.options().ports[peer.port]);
}

// The client may have a part of a reply that was cut short; the end of the connection shows that no
// more will come.
void KvApplication::handle(Request& request) {
  run_in_session(request);
  request.close_after |= request.cancelled;
}

void KvApplication::run_in_session(Request& request) {
  auto& session = static_cast<KvSession&>(*request.session);
  switch (session.speaks()) {
    case Speaks::kResp:
      return with_memory(request, session, [&] { serve(request, session); });
    case Speaks::kMemcached:
      return with_memory(request, session,
                         [&] { static_cast<MemcachedSession&>(session).run(request); });
    case Speaks::kRpc: break;
  }
  auto& over_rpc = static_cast<RpcKvSession&>(session);
  if (!over_rpc.begin(request)) return;
  with_memory(request, session, [&] { serve(request, session); });
  over_rpc.end(request);
}

// What runs out of memory answers an error instead of what it has written so far.
template <class F>
void KvApplication::with_memory(Request& request, KvSession& session, F&& run) {
  ReplyBuffer& reply = *request.reply;
  const uint64_t mark = reply.mark();
  try {
    run();
    if (!reply.starved()) return;
  } catch (const std::bad_alloc&) {
    request.reply = &reply;
  }
  say_no_memory(request, session, mark);
}

void KvApplication::say_no_memory(Request& request, KvSession& session, uint64_t mark) {
  server_.calls().fail(request.type);
  server_.errors().count(kNoMemoryForReply);
  if (!request.reply->take_back(mark)) {  // a part of the reply has left
    request.close_after = true;
    return;
  }
  if (session.speaks() == Speaks::kMemcached) {
    request.reply->append("SERVER_ERROR out of memory\r\n");
  } else if (session.replies() == Replies::kOn) {
    Reply(*request.reply, session.version()).error(kNoMemoryForReply);
  }
}

void KvApplication::serve(Request& request, KvSession& session) {
  if (!session.protocol_error().empty()) return say_protocol_error(request, session);
  if (session.argv().empty()) return;
  if (session.replies() != Replies::kOn) [[unlikely]] return run_muted(request, session);
  run(request, session);
}

// Runs the request and drops its reply, except where CLIENT REPLY ON ends the silence.
void KvApplication::run_muted(Request& request, KvSession& session) {
  ReplyBuffer nowhere;
  ReplyBuffer* const reply = request.reply;
  const bool next_only = session.replies() == Replies::kSkipNext;
  request.reply = &nowhere;
  run(request, session);
  request.reply = reply;
  const bool ended = session.replies() == Replies::kOn;
  if (next_only && session.replies() == Replies::kSkipNext) session.set_replies(Replies::kOn);
  if (ended) reply->append(nowhere.unsent());
}

void KvApplication::run(Request& request, KvSession& session) {
  const auto argv = session.argv();
  const Command& command = (*table_)[request.type];
  if (command.handler == nullptr) return reject_unknown(request, session);
  if (!arity_fits(command, argv.size())) {
    return refuse(request, session, "ERR wrong number of arguments for '" +
                                        table_->full_name(request.type) + "' command");
  }
  if ((command.flags & kNoAuth) == 0 && !session.authenticated()) {
    return refuse(request, session, "NOAUTH Authentication required.");
  }
  if ((command.flags & kDebug) != 0 && !may_debug(session)) [[unlikely]] {
    return refuse(request, session, kNoDebug);
  }
  if (session.transaction() != nullptr && (command.flags & kRunsInMulti) == 0) [[unlikely]] {
    return queue(request, session);
  }
  session.note_command(request.type);
  Context context{server_, server_.engine(), session, request, command, request.type, argv,
                  Reply(*request.reply, session.version())};
  command.handler(context);
}

bool KvApplication::may_debug(const KvSession& session) const {
  switch (server_.options().debug_command) {
    case Allowed::kNobody: return false;
    case Allowed::kLocal: return is_loopback(session.address());
    case Allowed::kAll: return true;
  }
  return false;
}

void KvApplication::queue(Request& request, KvSession& session) {
  Transaction& transaction = *session.transaction();
  if (transaction.rejected()) return refuse(request, session, kNotRun);
  const uint32_t flags = (*table_)[request.type].flags;
  if ((flags & kNotInMulti) != 0) return refuse(request, session, kNotInTransaction);
  if ((flags & kDenyOom) != 0 && server_.engine().is_full()) {
    return refuse(request, session, kNoMemoryForData);
  }
  if (!transaction.add(request.type, session.argv())) {
    return refuse(request, session, "OOM no memory to queue more commands, or " +
                                        std::to_string(Transaction::kMostCommands) + " are queued");
  }
  server_.calls().queue(request.type);
  Reply(*request.reply, session.version()).simple("QUEUED");
}

// Inside MULTI it makes EXEC fail.
void KvApplication::refuse(Request& request, KvSession& session, std::string_view text) {
  if (Transaction* transaction = session.transaction()) transaction->abort();
  server_.calls().refuse(request.type);
  server_.errors().count(text);
  Reply(*request.reply, session.version()).error(text);
}

void KvApplication::reject_unknown(Request& request, KvSession& session) {
  const auto argv = session.argv();
  if (session.speaks() == Speaks::kResp && is_http(argv[0])) {
    request.close_after = true;
    return;
  }
  if (table_->is_container(request.type) && argv.size() < 2) {
    return refuse(request, session, "ERR wrong number of arguments for '" +
                                        table_->full_name(request.type) + "' command");
  }
  refuse(request, session, unknown_text(*table_, request.type, argv));
}

void KvApplication::say_protocol_error(Request& request, KvSession& session) {
  request.close_after = session.speaks() == Speaks::kResp;  // the frames of RPC can be read on
  std::string text = "ERR ";
  text += session.protocol_error();
  server_.errors().count(text);
  Reply(*request.reply, session.version()).error(text);
}

void KvApplication::slow(const Request& request, const Completion& times) {
  const Nanos total = times.wait + times.service;
  if (total >= server_.log_slow()) {
    log_slow_request(type_name(request.type), times, type_name(times.blocker_type));
  }
  const auto& session = static_cast<const KvSession&>(*request.session);
  if (session.argv().empty()) return;
  const int64_t now_s = server_.now_ms() / kMillisPerSecond;
  const int64_t threshold_ms = server_.config().latency_threshold_ms();
  if (threshold_ms > 0 && total >= Nanos::millis(threshold_ms)) {
    const bool fast = ((*table_)[request.type].flags & kFast) != 0;
    server_.latency_monitor().add(fast ? "fast-command" : "command", now_s,
                                  total.count() / Nanos::millis(1).count());
  }
  const int64_t slower_than_us = server_.config().slowlog_slower_than_us();
  if (slower_than_us < 0 || total < Nanos::micros(slower_than_us)) return;
  SlowEntry entry;
  entry.unix_time_s = now_s;
  entry.times = times;
  entry.argv = SlowLog::trim(session.argv());
  redact(table_->full_name(request.type), entry.argv);
  entry.client_address = session.address();
  entry.client_name = session.name();
  const int64_t kept = std::max<int64_t>(server_.config().slowlog_max_len(), 0);
  server_.slowlog().add(std::move(entry), static_cast<size_t>(kept));
}

bool KvApplication::expire_some(uint32_t limit) {
  server_.flush_if_due();
  return server_.active_expiry() && server_.engine().expire_some(limit) >= limit;
}

}  // namespace rubato::kv
