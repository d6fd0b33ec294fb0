// SPDX-License-Identifier: Apache-2.0
#include "cli/load/agent.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "base/secret.h"
#include "cli/common/command_registry.h"
#include "cli/load/child_run.h"
#include "cli/load/parts.h"
#include "datapath/tcp_socket.h"
#include "load/socket.h"
#include "mechanism/clock/clock.h"

namespace rubato::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostRequest = 1 << 20;
constexpr size_t kMostAsking = 64;  // connections that have not asked yet
constexpr Nanos kAskingLimit = Nanos::seconds(5);
constexpr Nanos kTellingLimit = Nanos::seconds(60);
constexpr Nanos kGoLimit = kReadyPatience + Nanos::seconds(30);  // other agents are asked first
constexpr double kLongestRun = 1e8;  // seconds
constexpr int kLookMs = 200;  // for *stop, where a signal came just before a wait
constexpr int kBacklog = 16;
constexpr std::string_view kOfCoordinator[] = {
    "json", "hdr", "agent", "agents", "bind", "processes", "part", "token-file", "password",
    "load-keys", "note", "timeline", "watch", "cpu", "difference", "dpdk-args"};

std::string line_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

// A peer that has not shown the token. It gets no more than its socket holds, so that it cannot
// hold up others.
void refuse(const Fd& peer, const std::string& why) {
  send_bytes(peer.get(), line_of({{"refused", why}}));
}

// What a peer sends, line by line.
class Lines {
 public:
  explicit Lines(Fd peer) : peer_(std::move(peer)) {}

  const Fd& peer() const { return peer_; }
  size_t size() const { return text_.size(); }

  // Takes in what is there. False: the peer is gone.
  bool receive() {
    std::array<char, 4096> piece;
    while (text_.size() < kMostRequest) {
      const ssize_t got = receive_bytes(peer_.get(), piece.data(), piece.size());
      if (got < 0) return errno == EAGAIN || errno == EINTR;
      if (got == 0) return false;
      text_.append(piece.data(), static_cast<size_t>(got));
    }
    return true;
  }
  // The next whole line, without its end.
  std::optional<std::string> next() {
    const size_t end = text_.find('\n');
    if (end == std::string::npos) return std::nullopt;
    std::string line = text_.substr(0, end);
    text_.erase(0, end + 1);
    return line;
  }

 private:
  Fd peer_;
  std::string text_;
};

// The text of that name, or nothing.
std::string text_in(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

struct Asked {
  std::vector<std::string> args;
  std::string password;
};

// A run that may be. Fails with the reason why it may not.
Result<Asked> allowed(const std::string& line, const std::string& token) {
  const Json asked = Json::parse(line, nullptr, false);
  if (!asked.is_object() || !asked.contains("token") || !asked["token"].is_string()) {
    return Error{"this is an agent of rubato load, asked in another language"};
  }
  if (!is_secret(text_in(asked, "token"), token)) return Error{"the token is another one"};
  if (const std::string theirs = text_in(asked, "version"); theirs != version()) {
    return Error{fmt::format("the agent is rubato {}, who asks is {}", version(), theirs)};
  }
  Asked run;
  const auto given = asked.find("args");
  if (given == asked.end() || !given->is_array()) return Error{"args are a list of texts"};
  for (const Json& word : *given) {
    if (!word.is_string()) return Error{"arguments are texts"};
    run.args.push_back(word.get<std::string>());
    const std::string name = run.args.back().substr(0, run.args.back().find('='));
    if (name.starts_with("--") && is_for_the_coordinator(name.substr(2))) {
      return Error{"an agent takes no " + name};
    }
  }
  run.args.insert(run.args.end(), {"--json", "-"});
  run.password = text_in(asked, "password");
  return run;
}

// One thread that waits for nobody: peers that have not asked yet, the run, and who asked for it.
class Agent {
 public:
  Agent(Fd listener, std::string token, const volatile std::sig_atomic_t* stop)
      : listener_(std::move(listener)), token_(std::move(token)), stop_(stop) {}

  void serve() {
    while (*stop_ == 0) {
      wait();
      accept_others();
      hear_asking();
      if (job_ && !carry_on(*job_)) job_.reset();
    }
  }

 private:
  struct Asking {
    Lines lines;
    Instant until;
  };
  struct Job {
    Lines asker;
    ChildRun run;
    bool ready = false, ended = false;
    std::string telling = {};  // what the asker has not taken yet
    Instant end_by = now() + kGoLimit;  // of what it is at: the wait for go, the run, telling
    bool begun = false;
  };

  void wait() const {
    std::vector<pollfd> waiting = {{listener_.get(), POLLIN, 0}};
    for (const Asking& one : asking_) waiting.push_back({one.lines.peer().get(), POLLIN, 0});
    if (job_) {
      const auto events = static_cast<short>(job_->telling.empty() ? POLLIN : POLLIN | POLLOUT);
      waiting.push_back({job_->asker.peer().get(), events, 0});
      if (!job_->ended) waiting.push_back({job_->run.fd(), POLLIN, 0});
    }
    ::poll(waiting.data(), waiting.size(), kLookMs);
  }

  // Beyond the limit the oldest goes, so that those that never ask keep nobody out.
  void accept_others() {
    SocketAddress peer;
    for (Fd one = accept_from(listener_.get(), peer); one.valid();
         one = accept_from(listener_.get(), peer)) {
      if (asking_.size() == kMostAsking) asking_.erase(asking_.begin());
      asking_.push_back({Lines(std::move(one)), now() + kAskingLimit});
    }
  }

  void hear_asking() {
    const auto is_done = [this](Asking& one) { return hear(one); };
    asking_.erase(std::remove_if(asking_.begin(), asking_.end(), is_done), asking_.end());
  }

  // True: it is no longer one that is yet to ask.
  bool hear(Asking& one) {
    const bool here = one.lines.receive();
    if (const std::optional<std::string> line = one.lines.next()) {
      take(*line, one.lines);
      return true;
    }
    if (one.lines.size() >= kMostRequest) {
      refuse(one.lines.peer(), fmt::format("a request takes at most {} bytes", kMostRequest));
      return true;
    }
    if (here && now() < one.until) return false;
    if (here) {
      refuse(one.lines.peer(), fmt::format("no request within {:g} s", kAskingLimit.seconds()));
    }
    return true;
  }

  void take(const std::string& line, Lines& asker) {
    Result<Asked> asked = allowed(line, token_);
    if (!asked) return refuse(asker.peer(), asked.error());
    if (job_) return refuse(asker.peer(), "the agent is in another run");
    Result<ChildRun> run = ChildRun::start(asked->args, asked->password);
    if (!run) return refuse(asker.peer(), run.error());
    job_.emplace(Job{.asker = std::move(asker), .run = std::move(*run)});
  }

  // False: the run is over.
  static bool carry_on(Job& job) {
    if (!job.asker.receive()) return false;
    while (const std::optional<std::string> line = job.asker.next()) {
      const Json said = Json::parse(*line, nullptr, false);
      if (!said.is_object()) return false;
      if (said.contains("go") && !begin(job, said)) return false;
      if (said.contains("stop") && !job.ended) job.run.interrupt();
    }
    if (!job.ended && load::wait_readable(job.run.fd(), Nanos(0))) look_at_run(job);
    if (now() < job.end_by) return tell(job);
    // A coordinator that hangs, or whose machine is gone, must not keep the agent from others.
    if (!job.ended) refuse(job.asker.peer(), job.begun ? "the run has not ended in time" : "no go");
    return false;
  }

  // False: the asker speaks another language.
  static bool begin(Job& job, const Json& said) {
    const auto limit = said.find("limit_s");
    if (limit == said.end() || !limit->is_number()) return false;
    if (!job.ready || job.ended || job.begun) return true;
    job.begun = true;
    const double seconds = std::clamp(limit->get<double>(), 0.0, kLongestRun);
    job.end_by = now() + Nanos::seconds(static_cast<int64_t>(seconds)) + kStopPatience;
    job.run.go();
    return true;
  }

  static void look_at_run(Job& job) {
    RunEnd end;
    switch (job.run.look(end)) {
      case PartEvent::kNothing: return;
      case PartEvent::kReady:
        job.ready = true;
        job.telling += line_of({{"ready", true}});
        return;
      case PartEvent::kEnded:
        job.ended = true;
        job.end_by = now() + kTellingLimit;
        job.telling +=
            line_of({{"status", end.status}, {"said", end.said}, {"report", end.report}});
        return;
    }
  }

  // False: the asker is gone, or has been told all.
  static bool tell(Job& job) {
    while (!job.telling.empty()) {
      const ssize_t sent = send_bytes(job.asker.peer().get(), job.telling);
      if (sent < 0) return errno == EAGAIN;
      job.telling.erase(0, static_cast<size_t>(sent));
    }
    return !job.ended;
  }

  Fd listener_;
  const std::string token_;
  const volatile std::sig_atomic_t* const stop_;
  std::vector<Asking> asking_;
  std::optional<Job> job_;
};

}  // namespace

bool is_for_the_coordinator(const std::string& option) {
  return std::find(std::begin(kOfCoordinator), std::end(kOfCoordinator), option) !=
         std::end(kOfCoordinator);
}

std::string agent_request(const std::string& token, const std::vector<std::string>& args,
                          const std::string& password) {
  return line_of({{"token", token}, {"version", version()}, {"args", args},
                  {"password", password}});
}

std::string agent_go(Nanos limit) {
  return line_of({{"go", true}, {"limit_s", limit.seconds()}});
}

Status run_agent(const AgentOptions& options, const volatile std::sig_atomic_t* stop) {
  SocketAddress address;
  Result<Fd> listener = listen_alone(options.host, options.port, kBacklog, address);
  if (!listener) return Error{listener.error()};
  std::printf("rubato load: agent on %s\n", to_text(address).c_str());
  std::fflush(stdout);
  Agent(std::move(*listener), options.token, stop).serve();
  return Done{};
}

}  // namespace rubato::cli
