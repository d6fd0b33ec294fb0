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

#include "cli/common/command_registry.h"
#include "cli/load/child_run.h"
#include "datapath/tcp_socket.h"
#include "mechanism/clock/clock.h"

namespace rubato::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostRequest = 1 << 20;
constexpr Nanos kAskingLimit = Nanos::seconds(5);
constexpr Nanos kTellingLimit = Nanos::seconds(60);
constexpr int kLookMs = 200;  // for *stop, where a signal came just before a wait
constexpr int kBacklog = 16;
constexpr std::string_view kOfCoordinator[] = {
    "json", "hdr", "agent", "agents", "bind", "processes", "token-file", "load-keys", "note",
    "timeline", "watch", "cpu", "difference"};

// Does not tell by its time how much of the token is right.
bool equal(std::string_view a, std::string_view b) {
  bool same = a.size() == b.size();
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) same &= a[i] == b[i];
  return same;
}

bool send_line(const Fd& to, const Json& json) {
  const std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  const Instant limit = now() + kTellingLimit;
  for (std::string_view rest = text; !rest.empty();) {
    const ssize_t sent = send_bytes(to.get(), rest);
    if (sent > 0) {
      rest.remove_prefix(static_cast<size_t>(sent));
    } else if (errno != EAGAIN || !load::wait_writable(to.get(), limit - now())) {
      return false;
    }
  }
  return true;
}

// The line that asks, without its end; empty if who asks is gone. Fails with the reason why not.
Result<std::string> line_of(const Fd& from) {
  std::string line;
  std::array<char, 4096> piece;
  const Instant limit = now() + kAskingLimit;
  while (line.size() < kMostRequest && limit > now() &&
         load::wait_readable(from.get(), limit - now())) {
    const ssize_t got = receive_bytes(from.get(), piece.data(), piece.size());
    if (got == 0 || (got < 0 && errno != EAGAIN)) return std::string();
    if (got < 0) continue;
    line.append(piece.data(), static_cast<size_t>(got));
    if (line.back() == '\n') return line.substr(0, line.size() - 1);
  }
  if (line.size() < kMostRequest) {
    return Error{fmt::format("no request within {:g} s", kAskingLimit.seconds())};
  }
  return Error{fmt::format("a request takes at most {} bytes", kMostRequest)};
}

// The text of that name, or nothing.
std::string text_in(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

// The arguments of a run that may be. Fails with the reason why it may not.
Result<std::vector<std::string>> allowed(const std::string& line, const std::string& token) {
  const Json asked = Json::parse(line, nullptr, false);
  if (!asked.is_object() || !asked.contains("token") || !asked["token"].is_string()) {
    return Error{"this is an agent of rubato load, asked in another language"};
  }
  if (!equal(asked["token"].get<std::string>(), token)) return Error{"the token is another one"};
  if (const std::string theirs = text_in(asked, "version"); theirs != version()) {
    return Error{fmt::format("the agent is rubato {}, who asks is {}", version(), theirs)};
  }
  std::vector<std::string> args;
  const auto given = asked.find("args");
  if (given == asked.end() || !given->is_array()) return Error{"args are a list of texts"};
  for (const Json& word : *given) {
    if (!word.is_string()) return Error{"arguments are texts"};
    args.push_back(word.get<std::string>());
    const std::string name = args.back().substr(0, args.back().find('='));
    if (name.starts_with("--") && is_for_the_coordinator(name.substr(2))) {
      return Error{"an agent takes no " + name};
    }
  }
  args.insert(args.end(), {"--json", "-"});
  return args;
}

class Agent {
 public:
  Agent(Fd listener, std::string token, const volatile std::sig_atomic_t* stop)
      : listener_(std::move(listener)), token_(std::move(token)), stop_(stop) {}

  void serve() {
    while (*stop_ == 0) {
      pollfd waiting{listener_.get(), POLLIN, 0};
      if (::poll(&waiting, 1, kLookMs) > 0) take_one();
    }
  }

 private:
  Fd accepted() const {
    SocketAddress peer;
    return accept_from(listener_.get(), peer);
  }

  void take_one() {
    const Fd client = accepted();
    if (!client.valid()) return;
    const Result<std::string> line = line_of(client);
    if (!line) {
      send_line(client, {{"refused", line.error()}});
      return;
    }
    if (line.value().empty()) return;
    const Result<std::vector<std::string>> args = allowed(line.value(), token_);
    if (!args) {
      send_line(client, {{"refused", args.error()}});
      return;
    }
    Result<ChildRun> run = ChildRun::start(args.value());
    if (!run) {
      send_line(client, {{"refused", run.error()}});
      return;
    }
    const std::optional<RunEnd> end = await(*run, client);
    if (!end) return;
    send_line(client, {{"status", end->status}, {"said", end->said}, {"report", end->report}});
  }

  // Nothing: who asked is gone, or the agent ends. Others are told to come later.
  std::optional<RunEnd> await(ChildRun& run, const Fd& client) const {
    while (*stop_ == 0) {
      std::array<pollfd, 3> waiting{{{run.fd(), POLLIN, 0},
                                     {client.get(), POLLIN | POLLRDHUP, 0},
                                     {listener_.get(), POLLIN, 0}}};
      if (::poll(waiting.data(), waiting.size(), kLookMs) <= 0) continue;
      if (waiting[0].revents != 0) return run.end();
      if (waiting[1].revents != 0) return std::nullopt;
      if (const Fd other = accepted(); other.valid()) {
        send_line(other, {{"refused", "the agent is in another run"}});
      }
    }
    return std::nullopt;
  }

  Fd listener_;
  const std::string token_;
  const volatile std::sig_atomic_t* const stop_;
};

}  // namespace

bool is_for_the_coordinator(const std::string& option) {
  return std::find(std::begin(kOfCoordinator), std::end(kOfCoordinator), option) !=
         std::end(kOfCoordinator);
}

std::string agent_request(const std::string& token, const std::vector<std::string>& args) {
  const Json json = {{"token", token}, {"version", version()}, {"args", args}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
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
