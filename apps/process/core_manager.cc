// SPDX-License-Identifier: Apache-2.0
#include "process/core_manager.h"

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/log.h"
#include "base/timespec.h"
#include "mechanism/clock/clock.h"
#include "runtime/idle_cores.h"

namespace rubato {
namespace {

using overload::CoreBroker;
using overload::CoreRule;
using Json = nlohmann::ordered_json;

// Beside servers there are those who ask for the state.
constexpr size_t kMostPeers = CoreBroker::kMostServers + 32;
constexpr Nanos kStrangerPatience = Nanos::seconds(5);  // until a peer has said who it is
constexpr Nanos kTellAgain = Nanos::millis(1);
constexpr int kMostMessages = 16;  // of one peer at a time

constexpr Nanos kAcceptPause = Nanos::millis(100);  // when there is no descriptor for one
constexpr Nanos kPlaceAgain = Nanos::millis(100);   // after a failure

// 0: there is no such file.
ino_t inode_of(const std::string& path) {
  struct stat file {};
  return ::lstat(path.c_str(), &file) == 0 ? file.st_ino : 0;
}

pid_t pid_of(const Fd& other_end) {
  ucred who{};
  socklen_t length = sizeof who;
  return ::getsockopt(other_end.get(), SOL_SOCKET, SO_PEERCRED, &who, &length) == 0 ? who.pid : 0;
}

// The rule of a server's own allocator; fails with one line.
Result<std::unique_ptr<CoreRule>> rule_of(const CoreJoin& join) {
  overload::CoreSettings settings;
  const std::string text = text_of(join.settings);
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const size_t equals = text.find('=', at);
    if (equals >= end) return Error{"a setting that is not NAME=VALUE"};
    settings[text.substr(at, equals - at)] = text.substr(equals + 1, end - equals - 1);
    at = end + 1;
  }
  return CoreRule::make(text_of(join.allocator), settings, join.limit, kCoreTimeScale);
}

overload::CoreReport report_of(const CoreReportMessage& message) {
  overload::CoreReport report{message.order, message.cores, {}};
  report.signals.max_delay = std::max(Nanos(message.max_delay_ns), Nanos());
  report.signals.mean_delay = std::max(Nanos(message.mean_delay_ns), Nanos());
  report.signals.busy = std::isfinite(message.busy) ? std::clamp(message.busy, 0.0, 1.0) : 0;
  report.signals.parked_has_work = message.parked_has_work != 0;
  return report;
}

Json micros(Nanos time) { return std::round(time.micros() * 10) / 10; }

}  // namespace

Result<std::unique_ptr<CoreManager>> CoreManager::open(const CoreManagerOptions& options,
                                                       std::vector<BestEffortCommand> commands) {
  Result<Fd> door = listen_for_cores(options.path);
  if (!door.ok()) return Error{"--socket: " + door.error()};
  return std::unique_ptr<CoreManager>(
      new CoreManager(options, std::move(*door), std::move(commands)));
}

CoreManager::CoreManager(const CoreManagerOptions& options, Fd door,
                         std::vector<BestEffortCommand> commands)
    : options_(options),
      door_(std::move(door)),
      inode_(inode_of(options.path)),
      commands_(std::move(commands)),
      broker_(options.cpus, options.grace, options.patience) {
  for (BestEffortCommand& command : commands_) command.supervisor.begin();
}

CoreManager::~CoreManager() {
  // Who has removed the file has perhaps started another manager there.
  if (inode_of(options_.path) == inode_) ::unlink(options_.path.c_str());
}

void CoreManager::serve(int stop) {
  while (wait(stop)) {
    now_ = rubato::now();
    accept_all();
    for (const auto& peer : peers_) hear(*peer);
    broker_.pass(now_);  // after what has come while this process did not run
    remove_gone();
    carry_out();
  }
}

// False: it is to stop.
bool CoreManager::wait(int stop) {
  const bool rests = rubato::now() < accept_again_;
  std::vector<pollfd> watched{{stop, POLLIN, 0}, {rests ? -1 : door_.get(), POLLIN, 0}};
  bool strangers = false;
  for (const auto& peer : peers_) {
    const short awaited = peer->answer.empty() ? POLLIN : POLLOUT;
    watched.push_back({peer->connection.get(), awaited, 0});
    strangers = strangers || !peer->server;
  }
  Instant until = std::min(broker_.due(), next_placement());
  if (rests) until = std::min(until, accept_again_);
  if (untold_) until = std::min(until, rubato::now() + kTellAgain);
  if (strangers) until = std::min(until, rubato::now() + kStrangerPatience);
  const Nanos longest = std::clamp(until - rubato::now(), Nanos(), Nanos::seconds(60));
  const timespec limit = timespec_of(longest);
  const int ready = ::ppoll(watched.data(), watched.size(), &limit, nullptr);
  return ready <= 0 || watched[0].revents == 0;
}

// Of those whose placement has failed.
Instant CoreManager::next_placement() const {
  Instant next = Instant::never();
  for (const auto& peer : peers_) {
    if (peer->misplaced) next = std::min(next, peer->place_again);
  }
  return next;
}

void CoreManager::accept_all() {
  if (now_ < accept_again_) return;
  for (;;) {
    SocketAddress unnamed;
    Fd connection = accept_from(door_.get(), unnamed);
    if (!connection.valid()) {
      if (errno == EAGAIN) return;
      log_line(LogLevel::kError, LogEvent::kState, "cannot accept a server",
               {{"error", std::strerror(errno)}});
      accept_again_ = now_ + kAcceptPause;
      return;
    }
    if (peers_.size() == kMostPeers) {
      ++turned_away_;
      continue;
    }
    auto peer = std::make_unique<Peer>();
    peer->process = pid_of(connection);
    peer->connection = std::move(connection);
    peer->since = now_;
    peers_.push_back(std::move(peer));
  }
}

void CoreManager::hear(Peer& peer) {
  CoreBytes bytes;
  if (!peer.answer.empty()) answer(peer);
  for (int i = 0; i < kMostMessages && !peer.has_gone && peer.answer.empty(); ++i) {
    const CoreBytes::Came came = bytes.receive(peer.connection);
    if (came == CoreBytes::Came::kEnd) part_from(peer);
    if (came == CoreBytes::Came::kMessage) take(peer, bytes);
    if (came == CoreBytes::Came::kNothing) break;
  }
  const bool stranger = !peer.server && !peer.has_gone;
  if (stranger && now_ - peer.since >= kStrangerPatience) refuse(peer, "it says nothing");
}

void CoreManager::take(Peer& peer, const CoreBytes& bytes) {
  CoreReportMessage report;
  CoreJoin joining;
  CoreQuestion question;
  if (peer.server && bytes.read(report)) {
    broker_.report(*peer.server, report_of(report), now_);
  } else if (!peer.server && bytes.read(joining)) {
    join(peer, joining);
  } else if (!peer.server && bytes.read(question)) {
    peer.answer = state();
    answer(peer);
  } else {
    refuse(peer, "a message of another version");
  }
}

// Parts from the peer with the last of it, or if it takes nothing any more.
void CoreManager::answer(Peer& peer) {
  while (!peer.answer.empty()) {
    const size_t part = std::min(peer.answer.size(), kMostCoreState);
    if (::send(peer.connection.get(), peer.answer.data(), part, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
      if (errno == EAGAIN || errno == EINTR) return;
      break;
    }
    peer.answer.erase(0, part);
  }
  part_from(peer);
}

void CoreManager::join(Peer& peer, const CoreJoin& join) {
  if (join.guaranteed == 0 || join.limit < join.guaranteed || join.limit > limits::kMaxWorkers) {
    return refuse(peer, "guaranteed cores must be 1 or more, and no more than its workers");
  }
  if (peer.process <= 0) return refuse(peer, "its process is in another namespace");
  auto rule = rule_of(join);
  if (!rule.ok()) return refuse(peer, rule.error());
  const auto server = broker_.join(std::move(*rule), {join.guaranteed, join.limit}, now_);
  if (!server.ok()) return refuse(peer, server.error());
  peer.server = server.value();
  peer.placement.emplace(peer.process);
  log_line(LogLevel::kInfo, LogEvent::kState, "a server has joined",
           {{"pid", peer.process},
            {"allocator", text_of(join.allocator)},
            {"guaranteed", join.guaranteed},
            {"limit", join.limit},
            {"means", peer.placement->means()}});
}

void CoreManager::refuse(Peer& peer, const std::string& why) {
  ++turned_away_;
  log_line(LogLevel::kWarning, LogEvent::kRefused, why, {{"pid", peer.process}});
  CoreText text;
  put_text(text.text, why);
  static_cast<void>(send_message(peer.connection, text));
  part_from(peer);
}

void CoreManager::part_from(Peer& peer) {
  peer.has_gone = true;
  if (!peer.server) return;
  log_line(LogLevel::kInfo, LogEvent::kState, "a server has left", {{"pid", peer.process}});
  broker_.leave(*peer.server, now_);
  peer.server.reset();
}

void CoreManager::remove_gone() {
  std::erase_if(peers_, [](const auto& peer) { return peer->has_gone; });
}

// Those that lose CPUs are placed before those that get them.
void CoreManager::carry_out() {
  for (const bool grows : {false, true}) {
    for (const auto& peer : peers_) {
      if (!peer->server) continue;
      const std::vector<uint32_t>& cpus = broker_.order(*peer->server).cpus;
      if ((cpus.size() > peer->cpus.size()) == grows) place(*peer, cpus);
    }
  }
  untold_ = false;
  for (const auto& peer : peers_) {
    if (peer->server && broker_.order(*peer->server).number != peer->sent_order) tell(*peer);
  }
}

// A hung server, which has none, stays where it is.
void CoreManager::place(Peer& peer, const std::vector<uint32_t>& cpus) {
  const bool again = peer.misplaced && now_ >= peer.place_again;
  if (cpus == peer.cpus && !again) return;
  peer.cpus = cpus;
  const bool failed_before = std::exchange(peer.misplaced, false);
  if (cpus.empty()) return;
  const Instant begin = rubato::now();
  const Status placed = peer.placement->place(cpus);
  const Nanos took = rubato::now() - begin;
  ++placements_.count;
  placements_.total += took;
  placements_.longest = std::max(placements_.longest, took);
  if (placed.ok()) return;
  ++placements_.failed;
  peer.misplaced = true;
  peer.place_again = now_ + kPlaceAgain;
  if (failed_before) return;
  log_line(LogLevel::kError, LogEvent::kState, placed.error(), {{"pid", peer.process}});
}

void CoreManager::tell(Peer& peer) {
  const CoreBroker::Order& order = broker_.order(*peer.server);
  CoreOrder message;
  message.number = order.number;
  message.cores = order.cores;
  message.interval_ns = options_.interval.count();
  if (send_message(peer.connection, message)) {
    peer.sent_order = order.number;
  } else {
    untold_ = true;
  }
}

std::string CoreManager::state() const {
  std::map<CoreBroker::Server, const Peer*> by_server;
  for (const auto& peer : peers_) {
    if (peer->server) by_server[*peer->server] = peer.get();
  }
  Json servers = Json::array();
  for (const CoreBroker::View& one : broker_.view()) {
    const Peer& peer = *by_server.at(one.server);
    servers.push_back({{"pid", peer.process},
                       {"guaranteed", one.claim.guaranteed},
                       {"limit", one.claim.limit},
                       {"cores", one.cores},
                       {"cpus", one.order.cpus},
                       {"asked_back", one.order.cpus.size() - one.order.cores},
                       {"hung", one.hung},
                       {"longest_wait_us", micros(one.delay)},
                       {"granted", one.granted},
                       {"given_back", one.given_back},
                       {"taken", one.taken},
                       {"means", peer.placement->means()}});
  }
  Json commands = Json::array();
  for (const BestEffortCommand& command : commands_) {
    const SupervisorStatus& status = command.supervisor.status();
    commands.push_back({{"command", command.command},
                        {"running", status.state == SupervisorStatus::kRunning},
                        {"cpu_s", Nanos(status.cpu_ns).seconds()},
                        {"means", command.means}});
  }
  const CoreBroker::Counts& counts = broker_.counts();
  const auto placed = static_cast<int64_t>(std::max<uint64_t>(placements_.count, 1));
  return Json{{"pid", ::getpid()},
              {"cpus", broker_.cpus()},
              {"free", broker_.free()},
              {"moves", counts.moves},
              {"hung", counts.hung},
              {"late_reports", counts.late},
              {"refused", turned_away_},
              {"placements", placements_.count},
              {"placements_failed", placements_.failed},
              {"placement_mean_us", micros(placements_.total / placed)},
              {"placement_longest_us", micros(placements_.longest)},
              {"servers", std::move(servers)},
              {"best_effort", std::move(commands)}}
      .dump(-1, ' ', false, Json::error_handler_t::replace);  // commands may be any bytes
}

}  // namespace rubato
