// SPDX-License-Identifier: Apache-2.0
#include "cli/load/parts.h"

#include <poll.h>

#include <algorithm>
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
  // fd() is readable. Fails with the reason why it has no report.
  virtual Result<PartEvent> look(RunEnd& end) = 0;
  // Once it is ready: it begins, and has `limit` to end. False: it is gone.
  virtual bool go(Nanos limit) = 0;
  // It ends as soon as it can.
  virtual void interrupt() = 0;
};

class HereRunning final : public Running {
 public:
  explicit HereRunning(ChildRun run) : run_(std::move(run)) {}

  int fd() const override { return run_.fd(); }
  Result<PartEvent> look(RunEnd& end) override { return run_.look(end); }
  bool go(Nanos) override {
    run_.go();
    return true;
  }
  void interrupt() override { run_.interrupt(); }

 private:
  ChildRun run_;
};

class AgentRunning final : public Running {
 public:
  explicit AgentRunning(Channel channel) : channel_(std::move(channel)) {}

  int fd() const override { return channel_.fd(); }
  bool go(Nanos limit) override { return send_all(channel_, agent_go(limit), kPatience); }
  void interrupt() override {
    static_cast<void>(send_all(channel_, "{\"stop\": true}\n", kPatience));
  }

  Result<PartEvent> look(RunEnd& end) override {
    std::array<char, 65536> piece;
    const ssize_t got = channel_.receive(piece.data(), piece.size());
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return PartEvent::kNothing;
    if (got <= 0) return Error{"went away"};
    text_.append(piece.data(), static_cast<size_t>(got));
    if (text_.size() > kMostAgentBytes) return Error{"tells too much"};
    PartEvent event = PartEvent::kNothing;
    for (size_t newline = 0; (newline = text_.find('\n')) != std::string::npos;) {
      const Result<PartEvent> heard = read(text_.substr(0, newline), end);
      if (!heard) return heard;
      event = std::max(event, heard.value());
      text_.erase(0, newline + 1);
    }
    return event;
  }

 private:
  static Result<PartEvent> read(const std::string& line, RunEnd& end) {
    const Json reply = Json::parse(line, nullptr, false);
    if (!reply.is_object()) return Error{"is no agent of rubato load"};
    try {
      if (reply.contains("refused")) return Error{"refused: " + reply.value("refused", "")};
      if (reply.contains("ready")) return PartEvent::kReady;
      end.status = reply.value("status", kFailedStatus);
      end.said = reply.value("said", "");
      end.report = reply.value("report", "");
    } catch (const Json::exception& problem) {
      return Error{std::string("answers with a field of another type: ") + problem.what()};
    }
    return PartEvent::kEnded;
  }

  static constexpr int kFailedStatus = 1;

  Channel channel_;
  std::string text_;
};

Result<std::unique_ptr<Running>> start(const Part& part, const PartSecrets& secrets) {
  if (part.agent.host.empty()) {
    std::vector<std::string> args = part.args;
    args.insert(args.end(), {"--json", "-"});
    Result<ChildRun> run = ChildRun::start(args, secrets.password);
    if (!run) return Error{run.error()};
    return std::unique_ptr<Running>(std::make_unique<HereRunning>(std::move(*run)));
  }
  Result<load::Endpoint> to = load::resolve(part.agent);
  if (!to) return Error{to.error()};
  Result<Channel> channel = load::connect_channel(*to, nullptr, kPatience);
  if (!channel) return Error{channel.error()};
  const std::string request = agent_request(secrets.token, part.args, secrets.password);
  if (!load::send_all(*channel, request, kPatience)) {
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

  Status begin(const PartSecrets& secrets, Nanos limit_of_run) {
    for (const Part& part : parts_) {
      Result<std::unique_ptr<Running>> one = start(part, secrets);
      if (!one) return Error{one.error()};
      running_.push_back(std::move(*one));
    }
    ready_.resize(parts_.size());
    const Instant limit = now() + kReadyPatience;
    while (!all_ready()) {
      if (*stop_ != 0) return Error{"interrupted before the parts were ready"};
      if (now() > limit) return Error{late(ready_) + " has not been ready in time"};
      if (Status done = wait_once(); !done) return done;
    }
    for (size_t i = 0; i < running_.size(); ++i) {
      if (!running_[i]->go(limit_of_run)) return Error{parts_[i].name + " went away"};
    }
    begun_ = true;
    return Done{};
  }

  Status await(Instant limit) {
    for (bool stopped = false; left_ > 0;) {
      if (*stop_ != 0 && !stopped) {
        stopped = true;
        limit = std::min(limit, now() + kStopPatience);
        for (const auto& one : running_) {
          if (one != nullptr) one->interrupt();
        }
      }
      if (now() > limit) return Error{late(ended()) + " has not ended in time"};
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
      const Result<PartEvent> event = running_[i]->look(ends_[i]);
      if (!event) return Error{parts_[i].name + " " + event.error()};
      if (event.value() == PartEvent::kReady) ready_[i] = true;
      if (event.value() != PartEvent::kEnded) continue;
      if (ends_[i].report.empty()) return Error{parts_[i].name + ": " + reason(ends_[i])};
      if (!begun_) return Error{parts_[i].name + " ended before all were ready"};
      running_[i].reset();
      --left_;
    }
    return Done{};
  }

  bool all_ready() const {
    return std::all_of(ready_.begin(), ready_.end(), [](bool one) { return one; });
  }

  std::vector<bool> ended() const {
    std::vector<bool> ended;
    for (const auto& one : running_) ended.push_back(one == nullptr);
    return ended;
  }

  // The first that is not `done`.
  std::string late(const std::vector<bool>& done) const {
    const auto found = std::find(done.begin(), done.end(), false);
    return found == done.end() ? "a part"
                               : parts_[static_cast<size_t>(found - done.begin())].name;
  }

  const std::vector<Part>& parts_;
  const volatile std::sig_atomic_t* const stop_;
  std::vector<std::unique_ptr<Running>> running_;  // null = ended
  std::vector<bool> ready_;
  bool begun_ = false;  // all have been told to begin
  std::vector<RunEnd> ends_;
  size_t left_;
};

}  // namespace

uint64_t share_of(uint64_t whole, size_t i, size_t parts) {
  return whole / parts + (i < whole % parts ? 1 : 0);
}

Result<std::vector<PartReport>> run_parts(const std::vector<Part>& parts,
                                          const PartSecrets& secrets, Nanos limit,
                                          const volatile std::sig_atomic_t* stop) {
  Parts all(parts, stop);
  if (Status begun = all.begin(secrets, limit); !begun) return Error{begun.error()};
  if (Status done = all.await(now() + limit); !done) return Error{done.error()};
  return all.reports();
}

}  // namespace rubato::cli
