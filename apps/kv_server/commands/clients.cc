// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "kv_server/commands/helpers.h"

namespace rubato::kv {
namespace {

constexpr int64_t kNanosPerSecond = 1'000'000'000;

// There may be thousands of flows, so the request is long; the datapath reaches the checkpoints.
void for_each_flow(Context& c, const std::function<void(const FlowInfo&)>& visit) {
  long_begin();
  Datapath* datapath = c.server.host().datapath;
  if (datapath != nullptr) datapath->for_each_flow(visit);
}

// The line of CLIENT LIST. Fields for features that this server does not have are 0.
std::string client_line(const FlowInfo& flow, const Context& c) {
  const auto* session = static_cast<const KvSession*>(flow.session);
  std::string line = "id=" + std::to_string(flow.flow) + " addr=" + flow.peer +
                     " laddr=" + flow.local + " fd=" + std::to_string(flow.fd);
  if (session == nullptr) return line + "\n";
  const auto [library, library_version] = session->library();
  line += " name=" + session->name();
  line += " age=" + std::to_string(flow.age.count() / kNanosPerSecond);
  line += " idle=" + std::to_string(flow.idle.count() / kNanosPerSecond);
  line += session->no_evict() ? " flags=e" : " flags=N";
  const size_t input = flow.flow == c.session.id() ? c.request.payload.size() : 0;
  line += " db=0 sub=0 psub=0 ssub=0 multi=-1 qbuf=" + std::to_string(input);
  line += " qbuf-free=0 argv-mem=0 multi-mem=0";
  line += " rbs=0 rbp=0 obl=" + std::to_string(flow.unsent_bytes) + " oll=0 omem=0 tot-mem=0";
  line += " events=r cmd=";
  const uint32_t last = session->last_command();
  line += last == kUnknownCommand ? "NULL" : command_table().full_name(last);
  line += " user=default redir=-1 resp=" + std::to_string(session->shown_version());
  line += " lib-name=" + library + " lib-ver=" + library_version;
  return line + "\n";
}

void client_id(Context& c) { c.reply.integer(static_cast<int64_t>(c.session.id())); }

void client_info(Context& c) {
  std::string line;
  for_each_flow(c, [&](const FlowInfo& flow) {
    if (flow.flow == c.session.id()) line = client_line(flow, c);
  });
  c.reply.verbatim("txt", line);
}

// Clients have types in Redis; here all are normal.
bool read_client_type(Context& c, std::string_view word, bool& normal) {
  normal = same_word(word, "normal");
  for (const std::string_view other : {"master", "replica", "slave", "pubsub"}) {
    if (same_word(word, other)) return true;
  }
  if (!normal) c.error("ERR Unknown client type '" + std::string(word) + "'");
  return normal;
}

void client_list(Context& c) {
  bool all = true;
  std::vector<int64_t> ids;
  if (c.argv.size() == 4 && same_word(c.argv[2], "type")) {
    if (!read_client_type(c, c.argv[3], all)) return;
  } else if (c.argv.size() > 3 && same_word(c.argv[2], "id")) {
    all = false;
    for (const std::string_view word : c.argv.subspan(3)) {
      int64_t id = 0;
      if (!read_integer(c, word, id, "ERR Invalid client ID")) return;
      ids.push_back(id);
    }
  } else if (c.argv.size() != 2) {
    return c.error(kSyntaxError);
  }
  std::string lines;
  for_each_flow(c, [&](const FlowInfo& flow) {
    bool wanted = all;
    for (const int64_t id : ids) wanted |= static_cast<uint64_t>(id) == flow.flow;
    if (wanted) lines += client_line(flow, c);
  });
  c.reply.verbatim("txt", lines);
}

void client_getname(Context& c) {
  const std::string name = c.session.name();
  if (name.empty()) return c.reply.null();
  c.reply.bulk(name);
}

}  // namespace

bool read_client_name(Context& c, std::string_view name, std::string_view what) {
  for (const char letter : name) {
    if (letter >= '!' && letter <= '~') continue;
    c.error("ERR " + std::string(what) +
            " cannot contain spaces, newlines or special characters.");
    return false;
  }
  return true;
}

namespace {

void client_setname(Context& c) {
  if (!read_client_name(c, c.argv[2])) return;
  c.session.set_name(c.argv[2]);
  c.reply.ok();
}

void client_setinfo(Context& c) {
  const bool name = same_word(c.argv[2], "lib-name");
  if (!name && !same_word(c.argv[2], "lib-ver")) {
    return c.error("ERR Unrecognized option '" + std::string(c.argv[2]) + "'");
  }
  if (!read_client_name(c, c.argv[3], name ? "lib-name" : "lib-ver")) return;
  c.session.set_library(name ? c.argv[3] : "", name ? "" : c.argv[3]);
  c.reply.ok();
}

void client_no_evict(Context& c) {
  const bool on = same_word(c.argv[2], "on");
  if (!on && !same_word(c.argv[2], "off")) return c.error(kSyntaxError);
  c.session.set_no_evict(on);
  c.reply.ok();
}

struct KillRule {
  std::string_view address;
  std::string_view local;
  int64_t id = 0;
  bool normal = true;
  bool skip_me = true;
};

bool read_kill_word(Context& c, std::string_view word, std::string_view value, KillRule& rule) {
  if (same_word(word, "id")) {
    return read_integer_between(c, value, 1, INT64_MAX, rule.id,
                                "ERR client-id should be greater than 0");
  }
  if (same_word(word, "type")) return read_client_type(c, value, rule.normal);
  if (same_word(word, "user")) {
    if (value != "default") c.error("ERR No such user '" + std::string(value) + "'");
    return value == "default";
  }
  if (same_word(word, "addr")) {
    rule.address = value;
  } else if (same_word(word, "laddr")) {
    rule.local = value;
  } else if (same_word(word, "skipme") && (same_word(value, "yes") || same_word(value, "no"))) {
    rule.skip_me = same_word(value, "yes");
  } else {
    c.error(kSyntaxError);
    return false;
  }
  return true;
}

bool read_kill_rule(Context& c, KillRule& rule) {
  if (c.argv.size() == 3) {
    rule.address = c.argv[2];
    rule.skip_me = false;
    return true;
  }
  for (size_t i = 2; i < c.argv.size(); i += 2) {
    if (i + 1 == c.argv.size()) {
      c.error(kSyntaxError);
      return false;
    }
    if (!read_kill_word(c, c.argv[i], c.argv[i + 1], rule)) return false;
  }
  return true;
}

void client_kill(Context& c) {
  KillRule rule;
  if (!read_kill_rule(c, rule)) return;
  std::vector<uint64_t> found;
  for_each_flow(c, [&](const FlowInfo& flow) {
    const bool me = flow.flow == c.session.id();
    if (!rule.address.empty() && rule.address != flow.peer) return;
    if (!rule.local.empty() && rule.local != flow.local) return;
    if (rule.id != 0 && static_cast<uint64_t>(rule.id) != flow.flow) return;
    if (rule.normal && !(me && rule.skip_me)) found.push_back(flow.flow);
  });
  int64_t killed = 0;
  for (const uint64_t flow : found) {
    checkpoint();
    if (flow == c.session.id()) {
      c.request.close_after = true;
      ++killed;
    } else if (c.server.host().datapath->close_flow(flow)) {
      ++killed;
    }
  }
  if (c.argv.size() > 3) return c.reply.integer(killed);
  if (killed == 0) return c.error("ERR No such client");
  c.reply.ok();
}

void client_reply(Context& c) {
  if (same_word(c.argv[2], "on")) {
    c.session.set_replies(Replies::kOn);
    c.reply.ok();
  } else if (same_word(c.argv[2], "off")) {
    c.session.set_replies(Replies::kOff);
  } else if (same_word(c.argv[2], "skip")) {
    if (c.session.replies() != Replies::kOff) c.session.set_replies(Replies::kSkipNext);
  } else {
    c.error(kSyntaxError);
  }
}

constexpr uint32_t kTalk = kControl | kNoScript;
constexpr Group kGroup = Group::kConnection;

constexpr Command kCommands[] = {
    {"client", -2, kTalk, {}, nullptr, kGroup, "2.4.0", "About connections", {}},
    {"id", 2, kTalk, {}, client_id, kGroup, "5.0.0", "The number of this connection", "client"},
    {"info", 2, kTalk, {}, client_info, kGroup, "6.2.0", "About this connection", "client"},
    {"list", -2, kTalk | kAdmin, {}, client_list, kGroup, "2.4.0",
     "All connections; options TYPE type, ID id...", "client"},
    {"kill", -3, kTalk | kAdmin, {}, client_kill, kGroup, "2.4.0",
     "Closes connections by address, or by ID TYPE ADDR LADDR USER SKIPME", "client"},
    {"getname", 2, kTalk, {}, client_getname, kGroup, "2.6.9", "The name of this connection",
     "client"},
    {"setname", 3, kTalk, {}, client_setname, kGroup, "2.6.9", "Names this connection", "client"},
    {"setinfo", 4, kTalk, {}, client_setinfo, kGroup, "7.2.0",
     "Tells the client library: LIB-NAME or LIB-VER", "client"},
    {"no-evict", 3, kTalk | kAdmin, {}, client_no_evict, kGroup, "7.0.0",
     "ON or OFF, which CLIENT LIST shows; no other effect", "client"},
    {"reply", 3, kTalk, {}, client_reply, kGroup, "3.2.0",
     "ON, OFF, or SKIP the next one", "client"},
    {"help", 2, kTalk, {}, reply_help, kGroup, "5.0.0", "This help", "client"},
};

}  // namespace

std::span<const Command> client_commands() { return kCommands; }

}  // namespace rubato::kv
