// SPDX-License-Identifier: Apache-2.0
//
// rubato load: the open-loop generator.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>

#include "base/option_text.h"
#include "cli/common/command_registry.h"
#include "cli/common/file_text.h"
#include "cli/common/machine.h"
#include "cli/common/token_file.h"
#include "cli/common/value_flags.h"
#include "cli/load/agent.h"
#include "cli/load/child_run.h"
#include "cli/load/load_output.h"
#include "cli/load/load_wire.h"
#include "cli/load/parts.h"
#include "cli/load/tls_client_flags.h"
#include "cli/sim/workload_flags.h"
#include "load/generator.h"
#include "load/preload.h"
#include "load/replay_source.h"
#include "mechanism/cpu/pin.h"
#include "rpc/frames.h"
#include "workload/duration.h"

namespace rubato::cli {
namespace {

using namespace rubato::load;

constexpr uint64_t kMostKeys = 1'000'000'000;
constexpr uint32_t kLargestValue = 16u << 20;
constexpr uint32_t kMostScanned = 100'000'000;
constexpr double kLeastRate = 0.1;
constexpr uint16_t kHttpsPort = 443;
constexpr size_t kMostServers = 1000;
constexpr const char* kDefaultMix = "get:1";
constexpr const char* kDefaultHttpMix = "get/:1";
constexpr const char* kDefaultWorkload = "fixed-1";

volatile std::sig_atomic_t stop_requested = 0;

void request_stop(int) { stop_requested = 1; }

struct Settings {
  LoadOptions options;
  KvShape shape;
  Nanos warmup;
  std::string target_text, mix, workload, service_us, json_file, hdr_file;
  std::string arrivals_text = "poisson";
  ArrivalSpec arrivals;  // except its trace_file, which points into a text that is gone
  std::vector<Nanos> trace;
  std::vector<std::pair<std::string, std::string>> notes;
  uint32_t cpu = 0;
  bool pinned = false, rate_given = false, warmup_given = false, load_keys = false;
  bool rpc_given = false, pick_given = false, difference = false;
  bool balancer_given = false;
  std::string priorities;
  std::string replay_file;
  WorkloadSpec replayed;  // its trace, and the mix of its types
  bool duration_given = false;
  std::vector<load::Target> agents;
  std::string token_file;
  AgentOptions agent{.host = "127.0.0.1", .port = 0, .token = {}};
  bool is_agent = false, bind_given = false, is_part = false;
  uint32_t processes = 1;
  WireOptions wire;
  TlsClientFlags tls;
  std::unique_ptr<TlsConnector> tls_connector;
};

std::string verb_help() {
  std::string text = "Verbs of --mix:\n";
  for (const auto& [name, summary] : kv_verbs(load::Protocol::kResp)) {
    text += fmt::format("  {:<12}{}\n", name, summary);
  }
  std::vector<std::string_view> names;
  for (const auto& [name, summary] : kv_verbs(load::Protocol::kMemcached)) names.push_back(name);
  text += fmt::format("memcached has {}, with its own commands.\n", fmt::join(names, ", "));
  text +=
      "On a resp target, any other name, or anything but a number behind it, makes a command:\n"
      "  hgetall/user:7:5,lrange/mylist/0/100:1,setrange/{key}/8/{value}:1,GET/7:1\n"
      "  {key} is a random key as for get, {value} a value as for set, %XX a byte such as %2F (/)\n"
      "  or %2C (a comma). Capitals are no verbs: GET/7 gets the key 7, get/7 is get.\n";
  text +=
      "On an http target: get/PATH, delete/PATH, post/PATH and put/PATH, the last two with a body\n"
      "  of --value-size bytes. {key} in a path is a random key; a comma is %2C, since paths are\n"
      "  sent as they are given.\n";
  text += "Workloads of --workload (spin and rpc targets):\n";
  for (const NamedMix& mix : named_mixes()) {
    text += fmt::format("  {:<17}{}\n", mix.name, mix.summary);
  }
  text +=
      "  or NAME:SERVICE:SHARE,... such as short:0.5us:99.5,long:exp(500us):0.5\n\n"
      "Latency runs from the scheduled time of a request to its reply.\n\n"
      "Exit status: 0 a valid run in which every request was served or refused by plan. 1 no run,\n"
      "requests that got an error or no reply, or an INVALID report, whose figures are not to be\n"
      "trusted: the generator fell behind its schedule, had no connection free for too many\n"
      "requests, had none due, or was interrupted. The report is written all the same. 2 bad\n"
      "arguments.\n";
  return text;
}

Status read_trace(const std::string& path, std::vector<Nanos>& times) {
  const std::optional<std::string> text = file_text(path);
  if (!text) return Error{"cannot read '" + path + "'"};
  Result<std::vector<Nanos>> parsed = parse_trace(*text);
  if (!parsed) return Error{parsed.error()};
  times = std::move(*parsed);
  return Done{};
}

void add_target_options(CommandLine& command, Settings& s) {
  command.add_parsed(
      "--target", "URL",
      [&s](const std::string& text) -> Status {
        Result<std::vector<Target>> targets = parse_targets(text);
        if (!targets) return Error{targets.error()};
        if (targets->size() > kMostServers) {
          return Error{fmt::format("takes {} servers at most", kMostServers)};
        }
        s.options.target = targets->front();
        s.options.more_targets.assign(targets->begin() + 1, targets->end());
        s.target_text = text;
        return Done{};
      },
      "Server: resp://HOST:PORT, memcached://HOST[:PORT] (its text protocol; 11211 by default), "
       "memcached+udp://HOST[:PORT] (the same over UDP), "
       "http://HOST[:PORT] (HTTP/1.1; 80 by default; --tls for HTTPS, then 443), "
       "spin:// (the synthetic one), spin+udp:// (the same over datagrams), rpc:// or rpc+udp:// "
       "(the same over Rubato RPC), rpc+kv:// or rpc+kv+udp:// (serve kv over "
       "Rubato RPC). Several servers share the requests: rpc://HOST:PORT,HOST:PORT,...");
  command.add_parsed(
      "--balancer", "NAME",
      [&s](const std::string& text) -> Status {
        if (text == "weights") return Error{"weights are of `rubato fleet` only"};
        return read_option(OptionInfo{"balancer", "", 0, 0, ""}, text, s.options.balancing);
      },
      "Which of several servers gets a request: random, round-robin, two-choices, least-requests, "
      "or prequal, which asks rpc targets for their load (docs/FLEET.md)")
      .marks(s.balancer_given)
      .default_text("random");
  command.add_text("--password", s.options.password, "AUTH password").placeholder("TEXT");
  add_count(command, "--flows", s.options.flows, 1, kMaxFlows, "a number of connections",
            "Connections of an open loop");
  command.add_parsed(
      "--pick", "idle|random",
      [&s](const std::string& text) -> Status {
        if (text != "idle" && text != "random") {
          return Error{"takes idle or random, not '" + text + "'"};
        }
        s.options.pick = text == "idle" ? Pick::kIdle : Pick::kRandom;
        return Done{};
      },
      "Connection of a request: an idle one at random, because replies of one connection come in "
      "order and a GET would wait behind a scan on its own; or any, pipelining")
      .marks(s.pick_given)
      .default_text("idle");
}

void add_schedule_options(CommandLine& command, Settings& s) {
  add_number(command, "--rate", s.options.rate, kLeastRate, kMaxRate, "requests per second",
             "Requests per second")
      .marks(s.rate_given);
  add_seconds(command, "--duration", s.options.duration, Nanos::millis(1),
              Nanos::from_seconds(kMaxDurationSeconds), "Length of the run")
      .default_text("10")
      .marks(s.duration_given);
  add_seconds(command, "--warmup", s.warmup, Nanos(0), Nanos::from_seconds(kMaxDurationSeconds),
              "Left out of the figures at the start; default: a tenth of the duration")
      .marks(s.warmup_given);
  command.add_parsed(
      "--arrivals", "KIND",
      [&s](const std::string& text) -> Status {
        Result<ArrivalSpec> spec = parse_arrivals(text);
        if (!spec) return Error{spec.error()};
        s.arrivals = *spec;
        s.arrivals_text = text;
        if (spec->shape != ArrivalShape::kTrace) return Done{};
        return read_trace(std::string(spec->trace_file), s.trace);
      },
      "poisson, uniform, onoff (1 ms at twice the rate, 1 ms silent), batch:SIZE, "
      "bursty:PEAK:LENGTH (bursts of PEAK times the rate, of that mean length) or "
      "trace:FILE (a time in microseconds per line; stretched to --rate if that is given)")
      .default_text("poisson");
  command.add_text("--replay", s.replay_file,
                   "Requests of a trace that `serve --record` wrote, when they came then: of its "
                   "types, on spin and rpc targets with its service times, else what --mix has for "
                   "them; for its length unless --duration, stretched to --rate")
      .placeholder("FILE");
  add_count(command, "--seed", s.options.seed, 0, UINT64_MAX, "a whole number",
            "Same seed, same requests at the same times");
  add_count(command, "--closed", s.options.closed_clients, 1, kMaxFlows, "a number of clients",
            "Closed loop instead: each client sends when its last reply came, as classic tools "
            "do, together at most at --rate if that is given; its latency hides what a stall did "
            "to everybody else")
      .default_text("");
  command.add_flag("--difference", s.difference,
                   "With --closed and --rate: then the open loop at that rate, and what the closed "
                   "one did not show");
  add_seconds(command, "--timeout", s.options.reply_timeout, Nanos::millis(1), Nanos::seconds(3600),
              "How long to wait for the last replies")
      .default_text("5");
}

void add_request_options(CommandLine& command, Settings& s) {
  command.add_text("--mix", s.mix,
                   "Requests of a resp, memcached or rpc+kv target: VERB[/NUMBER]:WEIGHT,..., "
                   "of a resp target also COMMAND[/ARGUMENT...]:WEIGHT, of an http one "
                   "METHOD/PATH:WEIGHT")
      .placeholder("SPEC")
      .default_text(kDefaultMix);
  command.add_text("--workload", s.workload,
                   "Requests of a spin or rpc target: a name or a spec, as below")
      .placeholder("NAME|SPEC")
      .default_text(kDefaultWorkload);
  add_count(command, "--keys", s.shape.keys, 1, kMostKeys, "a number of keys", "Keys in use");
  add_count(command, "--value-size", s.shape.value_size_bytes, 0, kLargestValue, "bytes",
            "Bytes of a value");
  add_count(command, "--scan-limit", s.shape.scan_limit, 1, kMostScanned, "a number of items",
            "Items of a range, scan, lrange, smembers, hgetall");
  command.add_flag("--load-keys", s.load_keys,
                   "First set every key (and the list, set, hash or counters of the mix)");
  command.add_text("--service-us", s.service_us,
                   "Nominal service times for slowdowns, such as get=3,range=1000")
      .placeholder("VERB=US,...");
}

void add_rpc_options(CommandLine& command, Settings& s) {
  add_count(command, "--rpc-queue", s.options.rpc_queue, 1, 1'000'000, "a number of requests",
            "rpc targets: requests that a session queues while it has no credit; then the oldest "
            "is dropped")
      .marks(s.rpc_given);
  add_rpc_expire(command, s.options.rpc_expire).marks(s.rpc_given);
  command.add_text("--priorities", s.priorities,
                   "rpc targets: requests tell how urgent they are, 0 to 7 by type, 0 the most "
                   "urgent and of types that are not named; each connection is a user")
      .placeholder("TYPE=N,...");
}

void add_output_options(CommandLine& command, Settings& s) {
  command.add_output("--json", s.json_file, "Write the report as JSON; - is stdout");
  command.add_output("--hdr", s.hdr_file,
                   "Write latencies as an HdrHistogram log, a tag for each type; - is stdout");
  command.add_flag("--timeline", s.options.timeline, "Add figures per 100 ms to the JSON");
  command.add_flag("--ccdf", s.options.ccdf, "Add the latency distributions to the JSON");
  add_count(command, "--watch", s.options.watched_server, 1, INT32_MAX, "a process id",
            "The server's process, if it runs here: notices when the machine keeps a core from its "
            "workers, and tells the latency of what no such stall touched beside that of all")
      .default_text("");
  command.add_flag("--nap", s.options.nap,
                   "Sleep until a request is due or a reply comes, instead of polling: for "
                   "machines where the server needs the core; latencies include that the sleeper "
                   "must wake, and of each server but one up to 100 us until its turn");
  command.add_parsed(
      "--cpu", "N",
      [&s](const std::string& text) -> Status {
        uint32_t cpu = 0;
        const auto [stop, problem] = std::from_chars(text.data(), text.data() + text.size(), cpu);
        if (problem != std::errc() || stop != text.data() + text.size()) {
          return Error{"takes the number of a CPU, not '" + text + "'"};
        }
        s.cpu = cpu;
        s.pinned = true;
        return pin_this_thread(cpu);
      },
      "Run on this CPU only");
  command.add_parsed(
      "--note", "KEY=VALUE",
      [&s](const std::string& text) -> Status {
        const size_t equals = text.find('=');
        if (equals == std::string::npos || equals == 0) {
          return Error{"takes KEY=VALUE, not '" + text + "'"};
        }
        s.notes.emplace_back(text.substr(0, equals), text.substr(equals + 1));
        return Done{};
      },
      "Write this into the report; policy= and workers= fill those fields. May be repeated")
      .repeatable();
}

// A list of HOST:PORT.
Status parse_agents(const std::string& text, std::vector<load::Target>& agents) {
  agents.clear();
  for (std::string_view rest = text;;) {
    const size_t comma = rest.find(',');
    Result<Target> agent = parse_target("resp://" + std::string(rest.substr(0, comma)));
    if (!agent) {
      return Error{"takes HOST:PORT,... of `rubato load --agent`, not '" + text + "'"};
    }
    agents.push_back(std::move(*agent));
    if (agents.size() > kMostParts) return Error{fmt::format("takes {} at most", kMostParts)};
    if (comma == std::string_view::npos) return Done{};
    rest.remove_prefix(comma + 1);
  }
}

void add_part_options(CommandLine& command, Settings& s) {
  add_count(command, "--processes", s.processes, 1, kMostParts, "a number of processes",
            "Share the load among so many processes here; the report is that of one run");
  command.add_parsed(
      "--agents", "HOST:PORT,...",
      [&s](const std::string& text) { return parse_agents(text, s.agents); },
      "Share it among agents on other machines; every file but that of --json, --hdr and "
      "--token-file is theirs");
  command.add_parsed(
      "--agent", "PORT",
      [&s](const std::string& text) -> Status {
        const char* const end = text.data() + text.size();
        const auto [stop, problem] = std::from_chars(text.data(), end, s.agent.port);
        if (problem != std::errc() || stop != end) {
          return Error{"takes a port of 0 to 65535 (0: any), not '" + text + "'"};
        }
        s.is_agent = true;
        return Done{};
      },
      "Be such an agent: generate for who knows the token, until a signal");
  command.add_flag("--part", s.is_part,
                   "What `rubato load` starts as part of a run: password, ready and go come by "
                   "stdin")
      .hidden();
  command.add_text("--bind", s.agent.host,
                   "The agent's address; with --datapath dpdk that of the port, if not the one "
                   "from which the system would send")
      .marks(s.bind_given);
  command.add_text("--token-file", s.token_file,
                   "The token of the agents, 16 bytes or more. Neither it nor --password is "
                   "encrypted on its way to them, so use a network of your own, or ssh -L")
      .placeholder("FILE");
}

std::vector<std::string_view> names_of(const std::vector<SourceType>& types) {
  std::vector<std::string_view> names;
  for (const SourceType& type : types) names.push_back(type.name);
  return names;
}

bool is_http(const Settings& s) { return s.options.target.protocol == load::Protocol::kHttp; }

bool is_memcached(const Settings& s) {
  return s.options.target.protocol == load::Protocol::kMemcached;
}

bool over_udp(const Settings& s) { return load::over_udp(s.options.target.protocol); }

void check_protocol(const Settings& s) {
  const bool rpc = speaks_rpc(s.options.target);
  if (!rpc && s.rpc_given) {
    bad_value("--rpc-queue, --rpc-expire", "are for Rubato RPC, see --target");
  }
  if ((rpc || is_memcached(s) || is_http(s) || over_udp(s)) && !s.options.password.empty()) {
    bad_value("--password", "is for resp:// targets");
  }
  if (s.pick_given && (rpc || over_udp(s))) {
    bad_value("--pick", "is for connections whose replies come in order, not for rpc:// and UDP");
  }
  if (s.load_keys && !is_memcached(s) && s.options.target.protocol != load::Protocol::kResp) {
    bad_value("--load-keys", "is for resp:// and memcached:// targets, over TCP");
  }
}

size_t parts_of(const Settings& s) { return s.agents.empty() ? s.processes : s.agents.size(); }

void check_servers(const Settings& s) {
  const LoadOptions& o = s.options;
  if (o.more_targets.empty()) {
    if (s.balancer_given) bad_value("--balancer", "is for several servers, see --target");
    return;
  }
  if (o.balancing == overload::Balancing::kPrequal && !speaks_rpc(o.target)) {
    bad_value("--balancer", "prequal is for Rubato RPC, whose servers answer probes");
  }
  if (o.closed_clients > 0) bad_value("--closed", "is for one server");
  if (is_http(s)) bad_value("--target", "takes several servers, but not of http");
  if (s.wire.takes_interface()) bad_value("--datapath", "is for one server");
  const size_t least = (o.more_targets.size() + 1) * parts_of(s);
  if (o.flows < least) {
    bad_value("--flows", fmt::format("takes {} or more: one for each server of each part", least));
  }
  for (const Target& other : o.more_targets) {
    if (s.tls.wanted && other.host != o.target.host) {
      bad_value("--tls", "takes several servers of one host only: their names would differ");
    }
  }
}

// Of each type, by the names that the source gives them.
std::vector<uint8_t> read_priorities(const Settings& s, const std::vector<SourceType>& types) {
  if (s.priorities.empty()) return {};
  if (!speaks_rpc(s.options.target)) {
    bad_value("--priorities", "are for Rubato RPC, see --target");
  }
  std::vector<uint8_t> priorities(types.size());
  for (std::string_view rest = s.priorities; !rest.empty();) {
    const size_t comma = std::min(rest.find(','), rest.size());
    const std::string_view one = rest.substr(0, comma);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
    const size_t equals = std::min(one.find('='), one.size());
    const auto type = std::find_if(types.begin(), types.end(), [&](const SourceType& known) {
      return known.name == one.substr(0, equals);
    });
    const std::string_view value = one.substr(std::min(equals + 1, one.size()));
    const bool good = value.size() == 1 && value[0] >= '0' && value[0] <= '0' + rpc::kMaxPriority;
    if (type == types.end() || !good) {
      bad_value("--priorities",
                fmt::format("takes TYPE=N,... with a type of the requests ({}) and N from 0 to {}, "
                            "not '{}'",
                            fmt::join(names_of(types), ", "), rpc::kMaxPriority, one));
    }
    priorities[static_cast<size_t>(type - types.begin())] = static_cast<uint8_t>(value[0] - '0');
  }
  return priorities;
}

void check_datapath(Settings& s) {
  const Status good = check_wire_options(over_udp(s), s.wire, "a target over UDP");
  if (!good) {
    const size_t colon = good.error().find(": ");  // behind the option's name
    bad_value(good.error().substr(0, colon), good.error().substr(colon + 2));
  }
  if (!s.wire.takes_interface()) return;
  const LoadOptions& o = s.options;
  if (std::max(o.flows, o.closed_clients) > kMostWirePorts) {
    bad_value("--flows, --closed", fmt::format("take {} at most with --datapath", kMostWirePorts));
  }
  if (s.processes > 1) bad_value("--processes", "is for --datapath kernel: the others have one");
  if (s.wire.over_dpdk() && s.options.nap) {
    bad_value("--nap", "is not for --datapath dpdk, which has nothing to sleep on");
  }
  if (s.wire.over_dpdk() && !s.agents.empty()) {
    bad_value("--agents", "is not for --datapath dpdk");
  }
  if (s.wire.over_dpdk() && s.difference) bad_value("--difference", "is not for --datapath dpdk");
  s.options.open_wire = wire_opener(s.wire, s.bind_given ? s.agent.host : "");
  if (!s.agents.empty()) return;
  if (const Status way = check_way(s.wire, o.target); !way) bad_value("--datapath", way.error());
}

void open_tls(Settings& s) {
  if (s.tls.wanted && over_udp(s)) {
    bad_value("--tls", "is for TCP, not for UDP");
  }
  load::Target& target = s.options.target;
  if (s.tls.wanted && is_http(s) && !target.port_given) target.port = kHttpsPort;
  // The agents open files of their own; those here are used to load the keys.
  const bool connects = s.agents.empty() || s.load_keys;
  if (s.tls.wanted && !connects) return;
  s.tls_connector = open_tls_client(s.tls, s.options.target.host);
  s.options.tls = s.tls_connector.get();
}

std::string token_of(const Settings& s) {
  Result<std::string> token = read_token(s.token_file);
  if (!token) bad_value("--token-file", token.error());
  return std::move(*token);
}

void read_replay(Settings& s) {
  if (s.replay_file.empty()) return;
  if (s.arrivals_text != "poisson" || s.options.closed_clients > 0) {
    bad_value("--replay", "goes without --arrivals and --closed");
  }
  if (!s.workload.empty()) bad_value("--replay", "goes without --workload");
  const Result<bool> read = use_recorded_workload("trace:" + s.replay_file, s.replayed);
  if (!read) bad_value("--replay", read.error());
  const RequestTrace& trace = *s.replayed.trace;
  if (trace.first() == trace.last()) bad_value("--replay", "needs requests at different times");
  if (!s.rate_given) s.options.rate = s.replayed.rate;
  const double seconds = static_cast<double>(trace.requests()) / s.options.rate;
  if (!s.duration_given) s.options.duration = Nanos::from_seconds(seconds);
  s.workload = "trace:" + s.replay_file;
  s.arrivals_text = s.workload;
}

void check_parts(const Settings& s) {
  if (s.bind_given && !s.wire.over_dpdk()) {
    bad_value("--bind", "is for --agent and --datapath dpdk");
  }
  if (s.agents.empty() != s.token_file.empty()) bad_value("--agents", "takes --token-file, too");
  if (!s.agents.empty() && s.processes > 1) bad_value("--processes", "is not for --agents");
  const bool closed = s.options.closed_clients > 0;
  if (s.difference && (!closed || !s.rate_given)) {
    bad_value("--difference", "needs --closed and --rate");
  }
  const size_t parts = parts_of(s);
  if (parts == 1 && s.agents.empty()) return;
  const char* const name = s.agents.empty() ? "--processes" : "--agents";
  if (s.options.timeline || s.pinned || s.options.watched_server != 0 || s.difference) {
    bad_value(name, "goes without --timeline, --watch, --cpu and --difference");
  }
  if ((!closed || s.rate_given) && s.options.rate / static_cast<double>(parts) < kLeastRate) {
    bad_value(name, fmt::format("leaves a part less than {} requests per second", kLeastRate));
  }
  if (s.arrivals.shape == ArrivalShape::kTrace) bad_value("--arrivals", "trace is of one process");
  if (!s.replay_file.empty()) bad_value("--replay", "is of one process");
  if ((closed ? s.options.closed_clients : s.options.flows) < parts) {
    bad_value(closed ? "--closed" : "--flows", fmt::format("takes {} or more: one a part", parts));
  }
}

// As the header Host has it.
std::string authority_of(const load::Target& target, bool tls) {
  const std::string text = target.text();
  if (target.port != (tls ? kHttpsPort : default_port(target.protocol))) return text;
  return text.substr(0, text.rfind(':'));
}

// The checks that need several options together.
void check(Settings& s) {
  read_replay(s);
  if (s.warmup_given) s.options.warmup = s.warmup;
  if (s.options.warmup_length() >= s.options.duration) {
    bad_value("--warmup", "takes less than the duration");
  }
  if (s.options.closed_clients > 0 && s.rate_given) {
    s.options.closed_gap = Nanos::from_seconds(1 / s.options.rate);
  }
  const bool spin = spins(s.options.target);
  if (spin && !s.mix.empty()) {
    bad_value("--mix",
              "is for resp://, memcached://, memcached+udp://, http://, rpc+kv:// and "
              "rpc+kv+udp:// targets; use --workload");
  }
  if (!spin && !s.workload.empty() && s.replay_file.empty()) {
    bad_value("--workload",
              "is for spin://, spin+udp://, rpc:// and rpc+udp:// targets; use --mix");
  }
  check_protocol(s);
  check_servers(s);
  check_parts(s);
  check_datapath(s);
  open_tls(s);
  if (s.mix.empty()) s.mix = is_http(s) ? kDefaultHttpMix : kDefaultMix;
  if (s.workload.empty()) s.workload = kDefaultWorkload;
}

std::unique_ptr<load::RequestSource> make_mixed_source(const Settings& s) {
  if (spins(s.options.target)) {
    Result<Mix> mix = s.replay_file.empty() ? parse_mix(s.workload) : s.replayed.mixes.front();
    if (!mix) bad_value("--workload", mix.error());
    const bool resp = s.options.target.protocol == load::Protocol::kSpin;
    return resp ? make_spin_source(std::move(*mix)) : make_rpc_spin_source(std::move(*mix));
  }
  const load::Target& target = s.options.target;
  const bool tls = s.tls.wanted;
  Result<std::unique_ptr<load::RequestSource>> source =
      is_http(s) ? make_http_source(s.mix, s.shape, s.service_us, authority_of(target, tls))
                 : make_kv_source(s.mix, s.shape, s.service_us, target.protocol);
  if (!source) {
    bad_value(source.error().starts_with("service-us") ? "--service-us" : "--mix", source.error());
  }
  return std::move(*source);
}

std::unique_ptr<load::RequestSource> make_source(const Settings& s) {
  std::unique_ptr<load::RequestSource> source = make_mixed_source(s);
  if (s.replay_file.empty()) return source;
  Result<std::unique_ptr<load::RequestSource>> replay =
      make_replay_source(s.replayed.trace, std::move(source));
  if (!replay) bad_value("--replay", replay.error());
  return std::move(*replay);
}

Arrivals make_arrivals(const Settings& s) {
  if (!s.replay_file.empty()) {
    return Arrivals::replay(arrival_times(s.replayed.trace), s.rate_given ? s.options.rate : 0);
  }
  if (s.arrivals.shape == ArrivalShape::kTrace) {
    return Arrivals::replay(s.trace, s.rate_given ? s.options.rate : 0);
  }
  return Arrivals::generate(s.arrivals, s.options.rate, s.options.seed);
}

void describe_run(const Settings& s, RunReport& report) {
  const bool spin = spins(s.options.target);
  report.workload = spin || !s.replay_file.empty() ? s.workload : s.mix;
  if (!spin && !s.replay_file.empty()) report.settings.emplace_back("mix", s.mix);
  report.target = s.target_text;
  report.machine = this_machine();
  report.version = version();
  if (s.options.closed_clients == 0) report.arrivals = s.arrivals_text;
  const bool closed = s.options.closed_clients > 0;
  auto& settings = report.settings;
  settings.emplace_back("flows",
                        std::to_string(closed ? s.options.closed_clients : s.options.flows));
  if (speaks_rpc(s.options.target)) {
    settings.emplace_back("rpc_queue", std::to_string(s.options.rpc_queue));
    settings.emplace_back("rpc_expire_us", fmt::format("{:g}", s.options.rpc_expire.micros()));
  } else if (!closed && !over_udp(s)) {
    settings.emplace_back("pick", s.options.pick == Pick::kIdle ? "idle" : "random");
  }
  if (!s.options.more_targets.empty()) {
    const auto balancing = static_cast<size_t>(s.options.balancing);
    settings.emplace_back("balancer", overload::kBalancingChoices[balancing].name);
  }
  if (!s.priorities.empty()) settings.emplace_back("priorities", s.priorities);
  settings.emplace_back("duration_s", fmt::format("{:g}", s.options.duration.seconds()));
  settings.emplace_back("warmup_s", fmt::format("{:g}", s.options.warmup_length().seconds()));
  if (!spin) {
    settings.emplace_back("keys", std::to_string(s.shape.keys));
    settings.emplace_back("value_size_bytes", std::to_string(s.shape.value_size_bytes));
    settings.emplace_back("scan_limit", std::to_string(s.shape.scan_limit));
  }
  if (s.tls.wanted) settings.emplace_back("tls", "on");
  if (s.wire.takes_interface()) settings.emplace_back("datapath", s.wire.datapath);
  if (s.processes > 1) settings.emplace_back("processes", std::to_string(s.processes));
  if (!s.agents.empty()) settings.emplace_back("agents", std::to_string(s.agents.size()));
  if (s.pinned) settings.emplace_back("cpu", std::to_string(s.cpu));
  for (const auto& [key, value] : s.notes) {
    if (key == "policy") {
      report.policy = value;
    } else if (key == "workers") {
      std::from_chars(value.data(), value.data() + value.size(), report.workers);
    } else {
      settings.emplace_back(key, value);
    }
  }
}

// Refusals are the server's plan, not its failure.
int status_of(const RunReport& report) {
  if (!report.valid) return fail(report.invalid_reason.c_str());
  if (report.errors + report.lost == 0) return kDone;
  return fail(fmt::format("of {} requests {} got an error and {} no reply", report.requests,
                          report.errors, report.lost)
                  .c_str());
}

Result<RunReport> run_here(const Settings& s, const LoadOptions& options) {
  const std::unique_ptr<load::RequestSource> source = make_source(s);
  Generator generator(options, *source, make_arrivals(s));
  return generator.run(&stop_requested);
}

// The options that were given, but for those of these names.
std::vector<std::string> given_args(const CommandLine& command,
                                    bool (*without)(const std::string& name)) {
  std::vector<std::string> args;
  for (const Option& option : command.options()) {
    const std::string name = option.name();
    if (!option.given() || without(name)) continue;
    if (option.is_flag()) {
      args.push_back("--" + name);
      continue;
    }
    for (const std::string& value : option.values()) {
      args.insert(args.end(), {"--" + name, value});
    }
  }
  return args;
}

// What the parts do not get as it is.
bool is_split(const std::string& name) {
  return name == "rate" || name == "flows" || name == "closed" || name == "seed" ||
         is_for_the_coordinator(name);
}

// What a report does not repeat: secrets, files that are written, the process that was watched.
bool is_of_one_run(const std::string& name) {
  return name == "password" || name == "json" || name == "hdr" || name == "watch";
}

// A word as a shell takes it.
std::string quoted(const std::string& word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%+=:,./-_";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

std::string repeated(const CommandLine& command) {
  std::string line = "rubato load";
  for (const std::string& word : given_args(command, is_of_one_run)) line += " " + quoted(word);
  return line;
}

std::vector<Part> make_parts(const Settings& s, const CommandLine& command) {
  const LoadOptions& o = s.options;
  const std::vector<std::string> shared = given_args(command, is_split);
  const size_t count = parts_of(s);
  std::vector<Part> parts(count);
  for (size_t i = 0; i < count; ++i) {
    Part& part = parts[i];
    part.name = fmt::format("process {}", i + 1);
    if (!s.agents.empty()) {
      part.agent = s.agents[i];
      part.name = fmt::format("agent {}:{}", part.agent.host, part.agent.port);
    }
    part.args = shared;
    const auto add = [&part](const char* name, const std::string& value) {
      part.args.insert(part.args.end(), {name, value});
    };
    const bool closed = o.closed_clients > 0;
    if (!closed || s.rate_given) {
      add("--rate", fmt::format("{}", o.rate / static_cast<double>(count)));
    }
    add(closed ? "--closed" : "--flows",
        std::to_string(share_of(closed ? o.closed_clients : o.flows, i, count)));
    add("--seed", std::to_string(o.seed + kPartSeedStep * i));
  }
  return parts;
}

Result<RunReport> run_in_parts(const Settings& s, const CommandLine& command) {
  constexpr Nanos kSlack = Nanos::seconds(30);
  const Nanos limit = s.options.duration + s.options.reply_timeout + kSlack;
  Result<std::vector<PartReport>> parts =
      run_parts(make_parts(s, command),
                {s.agents.empty() ? "" : token_of(s), s.options.password}, limit,
                &stop_requested);
  if (!parts) return Error{parts.error()};
  Result<RunReport> report = combine_reports(*parts);
  if (!report) return report;
  report->seed = s.options.seed;
  for (TypeReport& type : report->types) {
    if (s.options.ccdf) type.ccdf = ccdf_of(type.histograms.latency);
  }
  return report;
}

int run_difference(Settings& s, const CommandLine& command) {
  Result<RunReport> closed = run_here(s, s.options);
  if (!closed) return fail(closed.error().c_str());
  describe_run(s, *closed);
  closed->command = repeated(command);
  s.options.closed_clients = 0;
  Result<RunReport> open = run_here(s, s.options);
  if (!open) return fail(open.error().c_str());
  describe_run(s, *open);
  open->command = closed->command;
  const Status written = write_difference(*closed, *open, s.json_file, s.hdr_file);
  if (!written) return fail(written.error().c_str());
  const int status = status_of(*closed);
  return status == kDone ? status_of(*open) : status;
}

// An agent has the options of who asks it.
void refuse_others(const CommandLine& command) {
  constexpr std::string_view kOfAgent[] = {"agent", "bind", "token-file"};
  for (const Option& option : command.options()) {
    const std::string name = option.name();
    if (!option.given() || std::find(std::begin(kOfAgent), std::end(kOfAgent), name) !=
                               std::end(kOfAgent)) {
      continue;
    }
    bad_value("--agent", "goes without --" + name + ", which is for who asks the agent");
  }
}

int be_agent(Settings& s, const CommandLine& command) {
  refuse_others(command);
  if (s.token_file.empty()) bad_value("--agent", "needs --token-file");
  s.agent.token = token_of(s);
  const Status done = run_agent(s.agent, &stop_requested);
  return done ? kDone : fail(done.error().c_str());
}

int run_load(Settings& s, const CommandLine& command) {
  std::signal(SIGINT, request_stop);
  std::signal(SIGTERM, request_stop);
  if (s.is_agent) return be_agent(s, command);
  if (s.is_part) {
    Result<std::string> password = read_part_password();
    if (!password) return fail(password.error().c_str());
    s.options.password = std::move(*password);
    s.options.before_first = [] { return await_go(&stop_requested); };
  }
  if (s.target_text.empty()) bad_value("--target", "is required");
  check(s);
  // Bad arguments are told before anything is sent.
  s.options.priorities = read_priorities(s, make_source(s)->types());
  if (s.load_keys) {
    const PreloadPlan plan = plan_preload(s.mix, s.shape, s.options.target.protocol);
    if (Status done = preload(s.options, plan); !done) {
      return fail(done.error().c_str());
    }
  }
  s.options.progress = ::isatty(STDERR_FILENO) != 0;
  if (s.difference) return run_difference(s, command);
  const bool parted = parts_of(s) > 1 || !s.agents.empty();
  Result<RunReport> report = parted ? run_in_parts(s, command) : run_here(s, s.options);
  if (!report) return fail(report.error().c_str());
  describe_run(s, *report);
  report->command = repeated(command);
  const Status written = write_outputs(*report, s.json_file, s.hdr_file);
  if (!written) return fail(written.error().c_str());
  return status_of(*report);
}

void add_load(CommandLine& command) {
  auto settings = std::make_shared<Settings>();
  command.footer(verb_help());
  add_target_options(command, *settings);
  add_schedule_options(command, *settings);
  add_request_options(command, *settings);
  add_rpc_options(command, *settings);
  add_datapath_options(command, settings->wire);
  add_tls_client_options(command, settings->tls, "for all targets over TCP");
  add_part_options(command, *settings);
  add_output_options(command, *settings);
  command.action([settings, command] { return run_load(*settings, command); });
}

const Command kLoad({"", "load", "Drive a server with an open-loop load, measure it", add_load});

}  // namespace
}  // namespace rubato::cli
