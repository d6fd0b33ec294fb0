// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "kv_server/commands/helpers.h"

namespace rubato::kv {
namespace {

constexpr std::string_view kWrongPass =
    "WRONGPASS invalid username-password pair or user is disabled.";
constexpr std::string_view kDefaultUser = "default";

void ping(Context& c) {
  if (c.argv.size() > 2) {
    return c.error("ERR wrong number of arguments for 'ping' command");
  }
  if (c.argv.size() == 2) return c.reply.bulk(c.argv[1]);
  c.reply.raw("+PONG\r\n");
}

void echo(Context& c) { c.reply.bulk(c.argv[1]); }

void quit(Context& c) {
  c.reply.ok();
  c.request.close_after = true;
}

void reset(Context& c) {
  c.session.reset();
  Reply(*c.request.reply, RespVersion::k2).simple("RESET");
}

// There is one user, and without a password every client is logged in as this user.
bool log_in(Context& c, std::string_view user, std::string_view password) {
  const Config& config = c.server.config();
  const bool good = user == kDefaultUser &&
                    (!config.password_required() || config.password_is(password));
  if (good) c.session.set_authenticated(true);
  return good;
}

void auth(Context& c) {
  if (c.argv.size() > 3) return c.error(kSyntaxError);
  if (c.argv.size() == 2 && !c.server.config().password_required()) {
    return c.error(
        "ERR AUTH <password> called without any password configured for the default user. "
        "Are you sure your configuration is correct?");
  }
  const std::string_view user = c.argv.size() == 3 ? c.argv[1] : kDefaultUser;
  if (!log_in(c, user, c.argv.back())) return c.error(kWrongPass);
  c.reply.ok();
}

// Reads the options behind the version; false = an error has been answered.
bool read_hello_options(Context& c, std::string_view& name, bool& has_name) {
  for (size_t i = 2; i < c.argv.size(); ++i) {
    const size_t more = c.argv.size() - 1 - i;
    if (same_word(c.argv[i], "auth") && more >= 2) {
      if (!log_in(c, c.argv[i + 1], c.argv[i + 2])) {
        c.error(kWrongPass);
        return false;
      }
      i += 2;
    } else if (same_word(c.argv[i], "setname") && more >= 1) {
      name = c.argv[++i];
      has_name = true;
      if (!read_client_name(c, name)) return false;
    } else {
      c.error("ERR Syntax error in HELLO option '" + std::string(c.argv[i]) + "'");
      return false;
    }
  }
  return true;
}

void reply_hello(Context& c) {
  Reply reply(*c.request.reply, c.session.version());
  reply.map(7);
  reply.bulk("server");
  reply.bulk("redis");
  reply.bulk("version");
  reply.bulk(kRedisVersion);
  reply.bulk("proto");
  reply.integer(static_cast<int64_t>(c.session.version()));
  reply.bulk("id");
  reply.integer(static_cast<int64_t>(c.session.id()));
  reply.bulk("mode");
  reply.bulk("standalone");
  reply.bulk("role");
  reply.bulk("master");
  reply.bulk("modules");
  reply.array(0);
}

void hello(Context& c) {
  int64_t version = 0;
  if (c.argv.size() >= 2) {
    if (!read_integer(c, c.argv[1], version,
                      "ERR Protocol version is not an integer or out of range")) {
      return;
    }
    if (version < 2 || version > 3) return c.error("NOPROTO unsupported protocol version");
  }
  std::string_view name;
  bool has_name = false;
  if (!read_hello_options(c, name, has_name)) return;
  if (!c.session.authenticated()) {
    return c.error(
        "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO "
        "AUTH <user> <pass> option can be used to authenticate the client and select the RESP "
        "protocol version at the same time");
  }
  if (has_name) c.session.set_name(name);
  if (version != 0) c.session.set_version(static_cast<RespVersion>(version));
  reply_hello(c);
}

void select(Context& c) {
  int64_t database = 0;
  if (!read_integer_between(c, c.argv[1], INT32_MIN, INT32_MAX, database, kNotInteger)) return;
  if (database != 0) return c.error("ERR DB index is out of range");
  c.reply.ok();
}

constexpr uint32_t kTalk = kFast | kControl;

constexpr Command kCommands[] = {
    {"ping", -1, kTalk, {}, ping, Group::kConnection, "1.0.0", "Answers PONG, or the message", {}},
    {"echo", 2, kTalk, {}, echo, Group::kConnection, "1.0.0", "Answers the message", {}},
    {"quit", -1, kTalk | kNoAuth | kRunsInMulti, {}, quit, Group::kConnection, "1.0.0",
     "Closes the connection", {}},
    {"reset", 1, kTalk | kNoAuth | kNoScript | kRunsInMulti, {}, reset, Group::kConnection, "6.2.0",
     "Puts the connection back to how it began", {}},
    {"auth", -2, kTalk | kNoAuth | kNoScript, {}, auth, Group::kConnection, "1.0.0",
     "Authenticates the connection", {}},
    {"hello", -1, kTalk | kNoAuth | kNoScript, {}, hello, Group::kConnection, "6.0.0",
     "Chooses the protocol version; options AUTH SETNAME", {}},
    {"select", 2, kTalk, {}, select, Group::kConnection, "1.0.0",
     "Chooses the database; there is only 0", {}},
};

}  // namespace

std::span<const Command> connection_commands() { return kCommands; }

}  // namespace rubato::kv
