// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>

#include "base/log.h"
#include "kv_server/commands/helpers.h"
#include "kv_server/server/info.h"

namespace rubato::kv {
namespace {

constexpr int64_t kMicrosPerSecond = 1'000'000;
constexpr int64_t kMillisPerSecond = 1000;

void info(Context& c) { c.reply.verbatim("txt", info_text(c.server, c.argv.subspan(1))); }

void dbsize(Context& c) { c.reply.integer(static_cast<int64_t>(c.engine.size())); }

// Memory is given back before the reply, with ASYNC as well: the work is preemptible.
void flush(Context& c) {
  const bool plain = c.argv.size() == 1;
  const bool named = c.argv.size() == 2 &&
                     (same_word(c.argv[1], "async") || same_word(c.argv[1], "sync"));
  if (!plain && !named) return c.error(kSyntaxError);
  long_begin();
  if (c.good(c.engine.flush())) c.reply.ok();
}

void time(Context& c) {
  const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();
  const int64_t us = std::chrono::duration_cast<std::chrono::microseconds>(since_epoch).count();
  c.reply.array(2);
  c.reply.bulk_integer(us / kMicrosPerSecond);
  c.reply.bulk_integer(us % kMicrosPerSecond);
}

// There are no replicas, so every wait is over at once.
void wait(Context& c) {
  int64_t replicas = 0;
  int64_t timeout_ms = 0;
  if (!read_integer(c, c.argv[1], replicas)) return;
  if (!read_integer(c, c.argv[2], timeout_ms, "ERR timeout is not an integer or out of range")) {
    return;
  }
  if (timeout_ms < 0) return c.error("ERR timeout is negative");
  c.reply.integer(0);
}

void shutdown(Context& c) {
  for (const std::string_view word : c.argv.subspan(1)) {
    const bool known = same_word(word, "nosave") || same_word(word, "save") ||
                       same_word(word, "now") || same_word(word, "force");
    if (!known) return c.error(kSyntaxError);
  }
  if (c.server.host().control == nullptr) {
    return c.error("ERR Errors trying to SHUTDOWN. Check logs.");
  }
  c.request.close_after = true;
  c.server.host().control->shut_down();
}

struct BackupJob {
  std::string dir;
  Status made = Done{};
  std::atomic<bool> done{false};
};

void make_backup(Engine& engine, BackupJob& job) {
  const auto began = std::chrono::steady_clock::now();
  job.made = engine.backup(job.dir);
  const auto took = std::chrono::steady_clock::now() - began;
  const int64_t took_ms = std::chrono::duration_cast<std::chrono::milliseconds>(took).count();
  if (job.made.ok()) {
    log_line(LogLevel::kInfo, LogEvent::kStore, "backup made",
             {{"dir", job.dir}, {"took_ms", took_ms}});
  } else {
    log_line(LogLevel::kWarning, LogEvent::kStore, "no backup: " + job.made.error());
  }
  job.done.store(true, std::memory_order_release);
}

// The job goes on if its client leaves.
void backup(Context& c) {
  ServerControl* const control = c.server.host().control;
  if (control == nullptr) return c.error("ERR this server makes no backups");
  const auto job = std::make_shared<BackupJob>();
  job->dir = c.argv[1];
  if (!control->run_aside([job, &engine = c.engine] { make_backup(engine, *job); })) {
    return c.error("ERR another backup is being made");
  }
  long_begin();
  if (!wait_for(job->done)) return;
  if (!job->made.ok()) return c.error("ERR no backup: " + job->made.error());
  c.reply.ok();
}

// Burns time on the worker, as a heavy request does; can be preempted like one.
void debug_sleep(Context& c) {
  double seconds = 0;
  if (!parse_double(c.argv[2], seconds)) seconds = 0;
  constexpr double kMaxSeconds = 3600;
  seconds = std::clamp(seconds, 0.0, kMaxSeconds);
  long_begin();
  using SteadyClock = std::chrono::steady_clock;
  const auto span = std::chrono::duration_cast<SteadyClock::duration>(
      std::chrono::duration<double>(seconds));
  const auto end = SteadyClock::now() + span;
  while (SteadyClock::now() < end) {
    if (checkpoint()) return;
  }
  c.reply.ok();
}

void debug_set_active_expire(Context& c) {
  c.server.set_active_expiry(c.argv[2] != "0");
  c.reply.ok();
}

// Keys `prefix:0`, `prefix:1`, ... that do not exist yet, with values `value:N` or of a given size.
void debug_populate(Context& c) {
  int64_t count = 0;
  int64_t size = 0;
  if (!read_integer_between(c, c.argv[2], 0, INT64_MAX, count, kNotInteger)) return;
  const std::string prefix(c.argv.size() > 3 ? c.argv[3] : "key");
  constexpr auto kMaxSize = static_cast<int64_t>(kMaxValueBytes);
  if (c.argv.size() > 4 &&
      !read_integer_between(c, c.argv[4], 0, kMaxSize, size, kNotInteger)) {
    return;
  }
  long_begin();
  SetOptions options;
  options.when = SetOptions::When::kIfAbsent;
  for (int64_t i = 0; i < count; ++i) {
    if (checkpoint()) return;
    std::string value = "value:" + std::to_string(i);
    if (c.argv.size() > 4) value.resize(static_cast<size_t>(size));
    if (!c.good(c.engine.set(prefix + ":" + std::to_string(i), value, options))) return;
  }
  c.reply.ok();
}

void debug_ok(Context& c) { c.reply.ok(); }

// One reply of each kind, with the values that Redis has, for the tests of client libraries.
struct Sample {
  std::string_view kind;
  void (*write)(Reply& reply);
};

void three_integers(Reply& reply) {
  for (int64_t i = 0; i < 3; ++i) reply.integer(i);
}
void sample_map(Reply& reply) {
  reply.map(3);
  for (int64_t i = 0; i < 3; ++i) {
    reply.integer(i);
    reply.boolean(i == 1);
  }
}
void sample_attribute(Reply& reply) {
  if (reply.version() == RespVersion::k3) {
    reply.attribute(1);
    reply.bulk("key-popularity");
    reply.array(2);
    reply.bulk("key:123");
    reply.integer(90);
  }
  reply.bulk("Some real reply following the attribute");
}
void sample_push(Reply& reply) {
  if (reply.version() != RespVersion::k3) {
    return reply.error("ERR RESP2 is not supported by this command");
  }
  reply.push(2);
  reply.bulk("server-cpu-usage");
  reply.integer(42);
  reply.bulk("Some real reply following the push reply");
}

constexpr Sample kSamples[] = {
    {"string", [](Reply& reply) { reply.bulk("Hello World"); }},
    {"integer", [](Reply& reply) { reply.integer(12345); }},
    {"double", [](Reply& reply) { reply.real(3.141); }},
    {"bignum", [](Reply& reply) { reply.big_number("1234567999999999999999999999999999999"); }},
    {"null", [](Reply& reply) { reply.null(); }},
    {"array", [](Reply& reply) { reply.array(3), three_integers(reply); }},
    {"set", [](Reply& reply) { reply.set(3), three_integers(reply); }},
    {"map", sample_map},
    {"attrib", sample_attribute},
    {"push", sample_push},
    {"verbatim", [](Reply& reply) { reply.verbatim("txt", "This is a verbatim\nstring"); }},
    {"true", [](Reply& reply) { reply.boolean(true); }},
    {"false", [](Reply& reply) { reply.boolean(false); }},
};

void debug_protocol(Context& c) {
  std::string kinds;
  for (const Sample& sample : kSamples) {
    if (same_word(sample.kind, c.argv[2])) return sample.write(c.reply);
    kinds += (kinds.empty() ? "" : "|") + std::string(sample.kind);
  }
  c.error("ERR Wrong protocol type name. Please use one of the following: " + kinds);
}

// Test suites written for Redis empty the function library between tests; this server has none.
void function_flush(Context& c) { c.reply.ok(); }

void object_of(Context& c, void (*answer)(Context&, const Info&)) {
  Info found;
  const Outcome outcome = c.engine.info(c.argv[2], found);
  if (outcome == Outcome::kNone) return c.reply.null();
  if (c.good(outcome)) answer(c, found);
}

// The encoding that Redis would report for the value; here every value is plain bytes.
void object_encoding(Context& c) {
  constexpr size_t kEmbeddedBytes = 44;
  std::string_view encoding;
  const Outcome outcome = c.engine.get(c.argv[2], [&encoding](std::string_view value) {
    int64_t number = 0;
    encoding = parse_integer(value, number)        ? "int"
               : value.size() <= kEmbeddedBytes    ? "embstr"
                                                   : "raw";
  });
  if (outcome == Outcome::kNone) return c.reply.null();
  if (c.good(outcome)) c.reply.bulk(encoding);
}

void object_freq(Context& c) {
  object_of(c, [](Context& context, const Info&) {
    context.error(
        "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note "
        "that when switching between policies at runtime LRU and LFU data will take some time to "
        "adjust.");
  });
}
void object_idletime(Context& c) {
  object_of(c, [](Context& context, const Info& found) {
    if (found.idle_ms) return context.reply.integer(*found.idle_ms / kMillisPerSecond);
    context.error("ERR the engine " + std::string(context.engine.name()) +
                  " does not keep when a key was used");
  });
}
// Redis shares small numbers, unless it keeps when each key was used.
void object_refcount(Context& c) {
  constexpr int64_t kSharedBelow = 10'000;
  constexpr int64_t kShared = INT32_MAX;
  int64_t count = 1;
  const Outcome outcome = c.engine.get(c.argv[2], [&count](std::string_view value) {
    int64_t number = 0;
    if (parse_integer(value, number) && number >= 0 && number < kSharedBelow) count = kShared;
  });
  if (outcome == Outcome::kNone) return c.reply.null();
  if (c.good(outcome)) c.reply.integer(count);
}

// The approximate bytes of the entry: key, value, and the table's overhead.
void memory_usage(Context& c) {
  constexpr size_t kEntryBytes = 48;
  object_of(c, [](Context& context, const Info& found) {
    context.reply.integer(
        static_cast<int64_t>(context.argv[2].size() + found.value_bytes + kEntryBytes));
  });
}

constexpr uint32_t kManage = kControl | kAdmin | kNoScript;
constexpr uint32_t kRead = kReadOnly;
constexpr KeyPositions kSubKey{2, 2, 1};
constexpr Group kServerGroup = Group::kServer;
constexpr Group kGenericGroup = Group::kGeneric;

constexpr Command kCommands[] = {
    {"info", -1, kControl | kDangerous, {}, info, kServerGroup, "1.0.0",
     "About the server, by section", {}},
    {"dbsize", 1, kRead | kFast, {}, dbsize, kServerGroup, "1.0.0", "How many keys there are", {}},
    {"flushdb", -1, kWrite | kDangerous | kNotInMulti, {}, flush, kServerGroup, "1.0.0",
     "Removes all keys; option ASYNC or SYNC", {}},
    {"flushall", -1, kWrite | kDangerous | kNotInMulti, {}, flush, kServerGroup, "1.0.0",
     "Removes all keys; option ASYNC or SYNC", {}},
    {"time", 1, kFast | kControl, {}, time, kServerGroup, "2.6.0",
     "Unix time: seconds and microseconds", {}},
    {"wait", 3, kNoScript, {}, wait, kGenericGroup, "3.0.0", "Answers 0: there are no replicas",
     {}},
    {"backup", 2, kManage | kDangerous | kNotInMulti, {}, backup, kServerGroup, "7.0.0",
     "Makes a folder with a copy of the data, with which a server starts", {}},
    {"shutdown", -1, kManage | kNotInMulti, {}, shutdown, kServerGroup, "1.0.0",
     "Drains and ends the server", {}},
    {"debug", -2, kAdmin | kNoScript, {}, nullptr, kServerGroup, "1.0.0", "For tests", {}},
    {"sleep", 3, kAdmin | kDebug | kNotInMulti, {}, debug_sleep, kServerGroup, "1.0.0",
     "Works for that many seconds; can be preempted", "debug"},
    {"set-active-expire", 3, kAdmin | kDebug, {}, debug_set_active_expire, kServerGroup, "1.0.0",
     "0 stops the removal of expired keys that nobody asks for", "debug"},
    {"populate", -3, kAdmin | kDebug | kWrite | kDenyOom | kNotInMulti, {}, debug_populate,
     kServerGroup, "1.0.0",
     "Makes that many keys; then a prefix, then the size of the values", "debug"},
    {"protocol", 3, kAdmin | kDebug, {}, debug_protocol, kServerGroup, "6.0.0",
     "A reply of that kind: string, integer, double, bignum, null, array, set, map, attrib, push, "
     "verbatim, true or false", "debug"},
    {"jmap", 2, kAdmin | kDebug, {}, debug_ok, kServerGroup, "1.0.0", "Does nothing", "debug"},
    {"help", 2, kAdmin, {}, reply_help, kServerGroup, "5.0.0", "This help", "debug"},
    {"function", -2, kNoScript, {}, nullptr, kServerGroup, "7.0.0", "There are no functions", {}},
    {"flush", -2, kNoScript, {}, function_flush, kServerGroup, "7.0.0", "Does nothing",
     "function"},
    {"object", -2, kRead, {}, nullptr, kGenericGroup, "2.2.3", "About the value of a key", {}},
    {"encoding", 3, kRead, kSubKey, object_encoding, kGenericGroup, "2.2.3",
     "How Redis would keep it", "object"},
    {"freq", 3, kRead, kSubKey, object_freq, kGenericGroup, "4.0.0", "Not tracked", "object"},
    {"idletime", 3, kRead, kSubKey, object_idletime, kGenericGroup, "2.2.3",
     "Seconds since the key was used (memory engine)", "object"},
    {"refcount", 3, kRead, kSubKey, object_refcount, kGenericGroup, "2.2.3",
     "1, or 2147483647 for the numbers of 0 to 9999, which Redis shares", "object"},
    {"help", 2, kRead, {}, reply_help, kGenericGroup, "6.2.0", "This help", "object"},
    {"memory", -2, kRead, {}, nullptr, kServerGroup, "4.0.0", "About memory", {}},
    {"usage", -3, kRead, kSubKey, memory_usage, kServerGroup, "4.0.0",
     "About how many bytes a key takes", "memory"},
    {"help", 2, kRead, {}, reply_help, kServerGroup, "4.0.0", "This help", "memory"},
};

}  // namespace

std::span<const Command> server_commands() { return kCommands; }

}  // namespace rubato::kv
