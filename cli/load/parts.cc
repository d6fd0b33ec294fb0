// SPDX-License-Identifier: Apache-2.0
#include "cli/load/parts.h"

#include <poll.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/load/agent.h"
#include "cli/load/child_run.h"
#include "load/channel.h"
#include "load/socket.h"
#include "mechanism/clock/clock.h"

namespace rubato::cli {
namespace {

using Json = nlohmann::ordered_json;
using load::Channel;

constexpr Nanos kPatience = Nanos::seconds(5);
constexpr int kLookMs = 100;

// A part that runs.
class Running {
 public:
  virtual ~Running() = default;
  virtual int fd() const = 0;
  // fd() is readable: true = the part has ended. Fails with the reason why it has no report.
  virtual Result<bool> look(RunEnd& end) = 0;
};

class HereRunning final : public Running {
 public:
  explicit HereRunning(ChildRun run) : run_(std::move(run)) {}

  int fd() const override { return run_.fd(); }
  Result<bool> look(RunEnd& end) override {
    end = run_.end();
    return true;
  }

 private:
  ChildRun run_;
};

class AgentRunning final : public Running {
 public:
  explicit AgentRunning(Channel channel) : channel_(std::move(channel)) {}

  int fd() const override { return channel_.fd(); }

  Result<bool> look(RunEnd& end) override {
    std::array<char, 65536> piece;
    const ssize_t got = channel_.receive(piece.data(), piece.size());
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    if (got <= 0) return Error{"went away"};
    line_.append(piece.data(), static_cast<size_t>(got));
    if (line_.back() == '\n') return read(end);
    if (line_.size() > kMostAgentBytes) return Error{"tells too much"};
    return false;
  }

 private:
  Result<bool> read(RunEnd& end) const {
    const Json reply = Json::parse(line_, nullptr, false);
    if (!reply.is_object()) return Error{"is no agent of rubato load"};
    try {
      if (reply.contains("refused")) return Error{"refused: " + reply.value("refused", "")};
      end.status = reply.value("status", kFailedStatus);
      end.said = reply.value("said", "");
      end.report = reply.value("report", "");
    } catch (const Json::exception& problem) {
      return Error{std::string("answers with a field of another type: ") + problem.what()};
    }
    return true;
  }

  static constexpr int kFailedStatus = 1;

  Channel channel_;
  std::string line_;
};

Result<std::unique_ptr<Running>> start(const Part& part, const std::string& token) {
  if (part.agent.host.empty()) {
    std::vector<std::string> args = part.args;
    args.insert(args.end(), {"--json", "-"});
    Result<ChildRun> run = ChildRun::start(args);
    if (!run) return Error{run.error()};
    return std::unique_ptr<Running>(std::make_unique<HereRunning>(std::move(*run)));
  }
  Result<load::Endpoint> to = load::resolve(part.agent);
  if (!to) return Error{to.error()};
  Result<Channel> channel = load::connect_channel(*to, nullptr, kPatience);
  if (!channel) return Error{channel.error()};
  if (!load::send_all(*channel, agent_request(token, part.args), kPatience)) {
    return Error{part.name + " takes no request"};
  }
  return std::unique_ptr<Running>(std::make_unique<AgentRunning>(std::move(*channel)));
}

// Words of a report-less part, without the program's name.
std::string reason(const RunEnd& end) {
  constexpr std::string_view kName = "rubato: ";
  if (end.said.empty()) return "ended with status " + std::to_string(end.status);
  return end.said.starts_with(kName) ? end.said.substr(kName.size()) : end.said;
}

// Waits for all of them.
class Parts {
 public:
  Parts(const std::vector<Part>& parts, const volatile std::sig_atomic_t* stop)
      : parts_(parts), stop_(stop), ends_(parts.size()), left_(parts.size()) {}

  Status begin(const std::string& token) {
    for (const Part& part : parts_) {
      Result<std::unique_ptr<Running>> one = start(part, token);
      if (!one) return Error{one.error()};
      running_.push_back(std::move(*one));
    }
    return Done{};
  }

  Status await(Instant limit) {
    while (left_ > 0) {
      if (*stop_ != 0) return Error{"interrupted before its end: the parts have made no report"};
      if (now() > limit) return Error{late() + " has not ended in time"};
      if (Status done = wait_once(); !done) return done;
    }
    return Done{};
  }

  std::vector<PartReport> reports() {
    std::vector<PartReport> reports;
    for (size_t i = 0; i < ends_.size(); ++i) {
      reports.push_back({parts_[i].name, std::move(ends_[i].report)});
    }
    return reports;
  }

 private:
  Status wait_once() {
    std::vector<pollfd> waiting;
    for (const auto& one : running_) {
      waiting.push_back({one == nullptr ? -1 : one->fd(), POLLIN, 0});
    }
    if (::poll(waiting.data(), waiting.size(), kLookMs) <= 0) return Done{};
    for (size_t i = 0; i < waiting.size(); ++i) {
      if (waiting[i].revents == 0) continue;
      const Result<bool> ended = running_[i]->look(ends_[i]);
      if (!ended) return Error{parts_[i].name + " " + ended.error()};
      if (!ended.value()) continue;
      if (ends_[i].report.empty()) return Error{parts_[i].name + ": " + reason(ends_[i])};
      running_[i].reset();
      --left_;
    }
    return Done{};
  }

  std::string late() const {
    for (size_t i = 0; i < running_.size(); ++i) {
      if (running_[i] != nullptr) return parts_[i].name;
    }
    return "a part";
  }

  const std::vector<Part>& parts_;
  const volatile std::sig_atomic_t* const stop_;
  std::vector<std::unique_ptr<Running>> running_;  // null = ended
  std::vector<RunEnd> ends_;
  size_t left_;
};

}  // namespace

uint64_t share_of(uint64_t whole, size_t i, size_t parts) {
  return whole / parts + (i < whole % parts ? 1 : 0);
}

Result<std::vector<PartReport>> run_parts(const std::vector<Part>& parts, const std::string& token,
                                          Nanos limit, const volatile std::sig_atomic_t* stop) {
  Parts all(parts, stop);
  if (Status begun = all.begin(token); !begun) return Error{begun.error()};
  if (Status done = all.await(now() + limit); !done) return Error{done.error()};
  return all.reports();
}

}  // namespace rubato::cli
