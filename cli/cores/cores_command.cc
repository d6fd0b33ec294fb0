// SPDX-License-Identifier: Apache-2.0
//
// rubato cores: shares CPUs among servers that name its socket (--cores-manager), and best-effort
// commands; or asks the manager at a socket who has which.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/signalfd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "cli/common/command_registry.h"
#include "cli/common/value_flags.h"
#include "mechanism/cpu/pin.h"
#include "mechanism/cpu/topology.h"
#include "process/core_manager.h"

namespace rubato::cli {
namespace {

using Json = nlohmann::json;

constexpr int kPatienceMs = 10'000;  // with a manager that is asked
constexpr size_t kMostCommands = 16;
// A quiet server reports 16 times less often.
constexpr int64_t kLeastPatience = 32;

constexpr const char* kNotes =
    "\nServers join by `rubato serve ... --cores NAME --cores-manager PATH`; each is judged by\n"
    "its own allocator. A server that ends or is silent gives its cores back; when the manager\n"
    "ends, servers keep what they have.\n"
    "Exit status: 0 done, 1 no manager answers, or it cannot listen, 2 bad arguments.\n";

struct CoresCommandOptions {
  CoreManagerOptions manager;
  std::vector<std::string> best_effort;
  bool no_group = false;
  bool status = false;
  bool json = false;
};

Status read_cpus(const std::string& text, std::vector<uint32_t>& cpus) {
  const auto list = parse_cpu_list(text);
  if (!list || list->empty()) return Error{"takes CPUs such as 0-3,8, not '" + text + "'"};
  const std::vector<uint32_t> allowed = allowed_cpus();
  for (const uint32_t cpu : *list) {
    if (std::find(allowed.begin(), allowed.end(), cpu) == allowed.end()) {
      return Error{"CPU " + std::to_string(cpu) + " is not one that this process may use"};
    }
  }
  cpus = *list;
  return Done{};
}

// The answer of the manager, or a line.
Result<Json> ask(const std::string& path) {
  const Result<Fd> manager = connect_to_cores(path);
  if (!manager.ok()) return Error{manager.error()};
  const std::string nothing = "the manager of cores at '" + path + "' gives no answer";
  if (!send_message(manager.value(), CoreQuestion())) return Error{nothing};
  pollfd watched{manager.value().get(), POLLIN, 0};
  std::string text;
  std::string part(kMostCoreState, '\0');
  for (;;) {
    if (::poll(&watched, 1, kPatienceMs) <= 0) return Error{nothing};
    const ssize_t got = ::recv(manager.value().get(), part.data(), part.size(), 0);
    if (got <= 0) break;
    text.append(part, 0, static_cast<size_t>(got));
  }
  if (text.empty()) return Error{nothing};
  Json state = Json::parse(text, nullptr, false);
  if (state.is_discarded()) return Error{"'" + path + "' answers what is no state of a manager"};
  return state;
}

std::string list_of(const Json& cpus) {
  const auto numbers = cpus.get<std::vector<uint32_t>>();
  return numbers.empty() ? "-" : fmt::format("{}", fmt::join(numbers, ","));
}

std::string as_table(const Json& state) {
  std::string text = fmt::format(
      "CPUs {}, free {}; {} moves, {} placements of {} us on average, {} us at most, {} failed\n"
      "{} servers found hung, {} refused\n\n",
      list_of(state["cpus"]), list_of(state["free"]), state["moves"].get<uint64_t>(),
      state["placements"].get<uint64_t>(), state["placement_mean_us"].get<double>(),
      state["placement_longest_us"].get<double>(), state["placements_failed"].get<uint64_t>(),
      state["hung"].get<uint64_t>(), state["refused"].get<uint64_t>());
  text += fmt::format("{:>9} {:>10} {:>6} {:>6} {:>9} {:>8} {:>10} {:>6}  {}\n", "PID",
                      "GUARANTEED", "LIMIT", "CORES", "WAIT us", "GRANTED", "GIVEN BACK", "TAKEN",
                      "CPUS");
  for (const Json& one : state["servers"]) {
    text += fmt::format("{:>9} {:>10} {:>6} {:>6} {:>9} {:>8} {:>10} {:>6}  {}{}\n",
                        one["pid"].get<int64_t>(), one["guaranteed"].get<uint32_t>(),
                        one["limit"].get<uint32_t>(), one["cores"].get<uint32_t>(),
                        one["longest_wait_us"].get<double>(), one["granted"].get<uint64_t>(),
                        one["given_back"].get<uint64_t>(), one["taken"].get<uint64_t>(),
                        list_of(one["cpus"]), one["hung"].get<bool>() ? " (hung)" : "");
  }
  for (const Json& one : state["servers"]) {
    text += fmt::format("{}: {}\n", one["pid"].get<int64_t>(), one["means"].get<std::string>());
  }
  for (const Json& one : state["best_effort"]) {
    text += fmt::format("best effort, {}, {:.1f} s of CPU time, {}: {}\n",
                        one["running"].get<bool>() ? "running" : "not running",
                        one["cpu_s"].get<double>(), one["means"].get<std::string>(),
                        one["command"].get<std::string>());
  }
  return text;
}

int show(const CoresCommandOptions& o) {
  const Result<Json> state = ask(o.manager.path);
  if (!state.ok()) return fail(("--socket: " + state.error()).c_str());
  try {
    fmt::print("{}", o.json ? state.value().dump(2) + "\n" : as_table(state.value()));
  } catch (const Json::exception&) {
    return fail("--socket: the manager is of another version");
  }
  return kDone;
}

void tell_ignored(int signal) {
  log_line(LogLevel::kWarning, LogEvent::kSignal,
           signal == SIGHUP    ? "SIGHUP ignored: nothing is reloaded; SIGTERM stops the manager"
           : signal == SIGUSR1 ? "SIGUSR1 ignored; SIGTERM stops the manager"
                               : "SIGUSR2 ignored; SIGTERM stops the manager");
}

// Those that by default would end the process. What its parent has set stays, as under nohup.
void ignore_others() {
  for (const int signal : {SIGHUP, SIGUSR1, SIGUSR2}) {
    struct sigaction before {};
    if (::sigaction(signal, nullptr, &before) != 0 || before.sa_handler != SIG_DFL) continue;
    struct sigaction action {};
    action.sa_handler = tell_ignored;
    action.sa_flags = SA_RESTART;
    sigfillset(&action.sa_mask);
    ::sigaction(signal, &action, nullptr);
  }
}

// SIGTERM and SIGINT come by this from now on, and a log that nobody reads ends nothing.
Result<Fd> stop_signals() {
  sigset_t both;
  sigemptyset(&both);
  sigaddset(&both, SIGTERM);
  sigaddset(&both, SIGINT);
  ::pthread_sigmask(SIG_BLOCK, &both, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  ignore_others();
  Fd signals(::signalfd(-1, &both, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals.valid()) return Error{"no signalfd is left"};
  return signals;
}

int manage(const CoresCommandOptions& o) {
  std::vector<BestEffortCommand> commands;
  for (const std::string& text : o.best_effort) {
    auto command = supervise({text, !o.no_group, false}, "-" + std::to_string(commands.size()));
    if (!command.ok()) {  // "best_effort: ..."
      bad_value("--best-effort", command.error().substr(command.error().find(": ") + 2));
    }
    commands.push_back(std::move(*command));
  }
  const Result<Fd> signals = stop_signals();
  if (!signals.ok()) return fail(signals.error().c_str());
  const auto manager = CoreManager::open(o.manager, std::move(commands));
  if (!manager.ok()) return fail(manager.error().c_str());
  fmt::print("sharing CPUs {} at {}\n", fmt::join(o.manager.cpus, ","), o.manager.path);
  std::fflush(stdout);
  (*manager.value()).serve(signals.value().get());
  return kDone;
}

void check(CommandLine& command, const CoresCommandOptions& o) {
  if (o.json && !o.status) bad_value("--json", "needs --status");
  for (const char* name : {"--cpus", "--interval", "--grace", "--patience", "--best-effort"}) {
    if (o.status && command.given(name)) bad_value(name, "does not go with --status");
  }
  if (o.best_effort.size() > kMostCommands) {
    bad_value("--best-effort", std::to_string(kMostCommands) + " commands at most");
  }
  if (o.no_group && o.best_effort.empty()) {
    bad_value("--best-effort-no-group", "needs --best-effort CMD");
  }
  if (o.manager.patience < o.manager.interval * kLeastPatience) {
    bad_value("--patience", "must be " + std::to_string(kLeastPatience) +
                                " times --interval or more, as quiet servers report less often");
  }
}

void add_cores(CommandLine& command) {
  auto o = std::make_shared<CoresCommandOptions>();
  o->manager.cpus = allowed_cpus();
  command.add_text("--socket", o->manager.path, "Unix socket of the manager, which only its user "
                   "may use")
      .placeholder("PATH")
      .required();
  command
      .add_parsed("--cpus", "LIST",
                  [o](const std::string& text) { return read_cpus(text, o->manager.cpus); },
                  "CPUs that are shared, such as 2-7,10")
      .default_text("all that this process may use");
  add_seconds(command, "--interval", o->manager.interval, Nanos::micros(100), Nanos::seconds(1),
              "Between two reports of a server that has something to do")
      .default_text("0.001");
  add_seconds(command, "--grace", o->manager.grace, Nanos(), Nanos::seconds(60),
              "A server that is asked for a core has so long to end the request on it; then the "
              "CPU is taken, and its workers share the others")
      .default_text("0.005");
  add_seconds(command, "--patience", o->manager.patience, Nanos::millis(10), Nanos::seconds(3600),
              "A server that reports nothing for so long is hung, and has no core until it does")
      .default_text("1");
  command.add_texts("--best-effort", o->best_effort,
                    "Command for the shell that runs on the CPU time that all servers leave, and "
                    "ends with the manager; several times")
      .placeholder("CMD");
  command.add_flag("--best-effort-no-group", o->no_group,
                   "Make no control groups for them: SCHED_IDLE alone keeps them back");
  command.add_flag("--status", o->status, "Print who has which CPUs, and exit");
  command.add_flag("--json", o->json, "With --status: as JSON");
  command.footer(kNotes);
  command.action([o, command]() mutable {
    check(command, *o);
    return o->status ? show(*o) : manage(*o);
  });
}

const Command kCores({"", "cores", "Share CPUs among servers", add_cores});

}  // namespace
}  // namespace rubato::cli
