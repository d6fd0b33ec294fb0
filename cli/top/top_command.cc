// SPDX-License-Identifier: Apache-2.0
//
// rubato top: live servers in a terminal, over their metrics ports. It reads, and sets options
// where the server lets it.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "cli/common/command_registry.h"
#include "cli/common/file_text.h"
#include "cli/common/token_file.h"
#include "cli/common/value_flags.h"
#include "cli/load/tls_client_flags.h"
#include "cli/top/fetch.h"
#include "cli/top/terminal.h"
#include "cli/top/top_model.h"

namespace rubato::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr Nanos kLook = Nanos::millis(50);  // for answers and a new size
constexpr Nanos kPatience = Nanos::seconds(5);
constexpr int kPlainColumns = 80, kPlainRows = 1000;

constexpr const char* kNotes =
    "\nA server is named by its metrics port (serve kv --metrics-port 6402).\n"
    "Rates, waits and service times are of the last second; percentiles are those of all requests\n"
    "of the last second, and of the last minute. WAIT is the mean time until a request first\n"
    "runs.\n"
    "`held up` counts requests that waited 100 us or more behind one slice of another.\n"
    "Keys: q quit, s sort, r reverse, / filter, f or space freeze, tab next server, j k or arrows\n"
    "scroll, escape clears the filter, : sets NAME=VALUE of the shown server, as CONFIG SET of\n"
    "`serve kv` does for options of the scheduler; that takes --token-file, and\n"
    "--metrics-set-token of the server.\n"
    "Exit status: 0 done, 1 with --once a server did not answer, or a file could not be written,\n"
    "2 bad arguments.\n";

struct TopOptions {
  std::vector<std::string> servers;
  Nanos interval = Nanos::seconds(1);
  std::string record, replay, token_file, token;
  std::vector<std::pair<std::string, std::string>> set;  // name, value
  bool once = false, json = false;
  TlsClientFlags tls;
};

// The file of --record; without one, nothing is written.
class Recorder {
 public:
  explicit Recorder(const std::string& path) {
    if (path.empty()) return;
    file_.reset(std::fopen(path.c_str(), "we"));
    if (file_ == nullptr) bad_value("--record", "cannot write '" + path + "'");
  }
  // False = the disk is full, say.
  bool write(const Observation& observation) const {
    if (file_ == nullptr) return true;
    const std::string line = recorded(observation);
    return std::fwrite(line.data(), 1, line.size(), file_.get()) == line.size() &&
           std::fflush(file_.get()) == 0;
  }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, Close> file_;
};

// Where observations come from: servers, or a recording.
class Source {
 public:
  virtual ~Source() = default;
  // Those that have come since the last call. A source that can wait does while `frozen`.
  virtual std::vector<Observation> next(bool frozen) = 0;
};

Observation observation_of(const std::string& server, double at_s, Result<std::string> answer) {
  if (!answer) return {at_s, server, "", answer.error()};
  const auto state = parse_live_state(*answer);
  return state ? Observation{at_s, server, std::move(*answer), ""}
               : Observation{at_s, server, "", state.error()};
}

class LiveSource final : public Source {
 public:
  LiveSource(const std::vector<std::string>& names, const std::vector<MetricsPort>& servers,
             Nanos interval)
      : names_(names) {
    for (const MetricsPort& server : servers) {
      watches_.push_back(std::make_unique<Watch>(server, interval));
    }
  }
  ~LiveSource() override {
    for (const auto& watch : watches_) watch->stop();
  }

  std::vector<Observation> next(bool) override {
    std::vector<Observation> all;
    Result<std::string> answer{std::string()};
    const double at_s = std::chrono::duration<double>(Clock::now() - start_).count();
    for (size_t i = 0; i < watches_.size(); ++i) {
      if (!watches_[i]->take(answer)) continue;
      all.push_back(observation_of(names_[i], at_s, std::move(answer)));
    }
    return all;
  }

 private:
  const std::vector<std::string> names_;
  const Clock::time_point start_ = Clock::now();
  std::vector<std::unique_ptr<Watch>> watches_;
};

class ReplaySource final : public Source {
 public:
  explicit ReplaySource(std::vector<Observation> all) : all_(std::move(all)) {}

  // At the pace of the recording, from its first observation on.
  std::vector<Observation> next(bool frozen) override {
    const Clock::time_point at = Clock::now();
    if (!frozen) played_s_ += std::chrono::duration<double>(at - last_).count();
    last_ = at;
    std::vector<Observation> due;
    while (done_ < all_.size() && all_[done_].at_s - all_.front().at_s <= played_s_) {
      due.push_back(all_[done_++]);
    }
    return due;
  }

 private:
  const std::vector<Observation> all_;
  size_t done_ = 0;
  double played_s_ = 0;
  Clock::time_point last_ = Clock::now();
};

std::vector<Observation> recording_of(const std::string& path) {
  const std::optional<std::string> text = file_text(path);
  if (!text) bad_value("--replay", "cannot read '" + path + "'");
  Result<std::vector<Observation>> all = parse_recording(*text);
  if (!all) bad_value("--replay", "'" + path + "': " + all.error());
  return std::move(*all);
}

std::vector<std::string> servers_of(const std::vector<Observation>& all) {
  std::vector<std::string> names;
  for (const Observation& one : all) {
    if (std::find(names.begin(), names.end(), one.server) == names.end()) {
      names.push_back(one.server);
    }
  }
  return names;
}

int print_once(const TopModel& model, bool json) {
  int status = kDone;
  bool any = false;
  for (const ServerLine& server : model.servers()) {
    any = any || server.view.has_value();
    if (!server.trouble.empty()) status = fail(server.trouble.c_str());
  }
  if (json) {
    fmt::print("{}", top_json(model.servers()));
  } else if (any) {
    for (size_t i = 0; i < model.servers().size(); ++i) {
      if (!model.servers()[i].view) continue;
      Screen screen(kPlainColumns, kPlainRows);
      TopSettings settings;
      settings.note = " ";
      draw(screen, {model.servers()[i]}, settings);
      fmt::print("{}{}", i > 0 ? "\n" : "", screen.plain());
    }
  }
  return status;
}

int show_once(const TopOptions& o, TopModel& model, const std::vector<MetricsPort>& servers) {
  const Recorder recorder(o.record);
  for (int time = 0; time < 2; ++time) {
    if (time > 0) std::this_thread::sleep_for(std::chrono::nanoseconds(o.interval.count()));
    for (size_t i = 0; i < servers.size(); ++i) {
      const double at_s = time * o.interval.seconds();
      const Observation seen =
          observation_of(o.servers[i], at_s, fetch_state(servers[i], kPatience));
      model.take(seen);
      if (!recorder.write(seen)) return fail("cannot write the file of --record");
    }
  }
  return print_once(model, o.json);
}

// For the user: what came of it.
std::string set_wanted(const TopOptions& o, const MetricsPort& server, const std::string& wanted) {
  if (o.token.empty()) return "not set: that takes --token-file";
  const size_t equals = wanted.find('=');
  if (equals == std::string::npos) return "not set: takes NAME=VALUE";
  const Status done = set_option(server, o.token, wanted.substr(0, equals),
                                 wanted.substr(equals + 1), kPatience);
  return done ? "set " + wanted : done.error();
}

int set_all(const TopOptions& o, const std::vector<MetricsPort>& servers) {
  if (o.token.empty()) bad_value("--set", "needs --token-file");
  int status = kDone;
  for (const MetricsPort& server : servers) {
    for (const auto& [name, value] : o.set) {
      const Status done = set_option(server, o.token, name, value, kPatience);
      if (!done) status = fail(done.error().c_str());
    }
  }
  return status;
}

using Set = std::function<std::string(size_t server, const std::string& wanted)>;

// `set` sets an option of a server and tells what came of it.
int show(TopModel& model, Source& source, const Recorder& recorder, const Set& set) {
  auto opened = Terminal::open();
  if (!opened) bad_value("top", opened.error());
  std::unique_ptr<Terminal> terminal = std::move(*opened);
  Terminal::Size drawn{0, 0};
  bool wanted = true, changed = true;
  while (wanted && !terminal->ended()) {
    for (const Observation& seen : source.next(model.settings().frozen)) {
      model.take(seen);
      changed = true;
      if (recorder.write(seen)) continue;
      terminal.reset();
      return fail("cannot write the file of --record");
    }
    const Terminal::Size size = terminal->size();
    if (changed || size.columns != drawn.columns || size.rows != drawn.rows) {
      Screen screen(size.columns, size.rows);
      model.draw(screen);
      terminal->show(screen.ansi(terminal->colour()));
      drawn = size;
    }
    const std::string keys = terminal->keys(kLook);
    wanted = model.press(keys);
    changed = !keys.empty();
    if (const std::optional<std::string> option = model.take_wanted()) {
      model.tell(set(model.settings().selected, *option));
    }
  }
  return kDone;
}

int replay(const TopOptions& o) {
  std::vector<Observation> all = recording_of(o.replay);
  TopModel model(servers_of(all));
  if (o.once) {
    for (const Observation& one : all) model.take(one);
    return print_once(model, o.json);
  }
  ReplaySource source(std::move(all));
  return show(model, source, Recorder(""), [](size_t, const std::string&) {
    return std::string("not set: this is a recording");
  });
}

int run_top(TopOptions& o) {
  if (o.json && !o.once) bad_value("--json", "needs --once");
  if (!o.token_file.empty()) {
    Result<std::string> token = read_token(o.token_file);
    if (!token) bad_value("--token-file", token.error());
    o.token = std::move(*token);
  }
  if (!o.replay.empty()) {
    if (!o.set.empty()) bad_value("--set", "is for servers, not for --replay");
    if (!o.servers.empty()) bad_value("--replay", "takes the servers from the file, no HOST:PORT");
    if (!o.record.empty()) bad_value("--record", "has nothing to record with --replay");
    return replay(o);
  }
  if (o.servers.empty()) {
    bad_value("HOST:PORT", "names the metrics port of a server, such as 127.0.0.1:6402");
  }
  std::vector<MetricsPort> servers;
  for (size_t i = 0; i < o.servers.size(); ++i) {
    Result<load::Target> server = parse_metrics_port(o.servers[i]);
    if (!server) bad_value("HOST:PORT", server.error());
    if (o.servers[i].starts_with("https://") && !o.tls.wanted) {
      bad_value("HOST:PORT", "takes " + o.servers[i] + " with --tls");
    }
    if (std::count(o.servers.begin(), o.servers.end(), o.servers[i]) > 1) {
      bad_value("HOST:PORT", "names " + o.servers[i] + " twice");
    }
    servers.push_back({*server, open_tls_client(o.tls, server->host)});
  }
  if (!o.set.empty()) return set_all(o, servers);
  TopModel model(o.servers);
  if (o.once) return show_once(o, model, servers);
  const Recorder recorder(o.record);
  LiveSource source(o.servers, servers, o.interval);
  return show(model, source, recorder, [&](size_t server, const std::string& wanted) {
    return set_wanted(o, servers[server], wanted);
  });
}

void add_top(CommandLine& command) {
  auto options = std::make_shared<TopOptions>();
  command.footer(kNotes);
  command.add_texts("HOST:PORT", options->servers, "Metrics ports of the servers; a port alone is "
                                                   "one of this machine");
  add_seconds(command, "--interval", options->interval, Nanos::millis(100), Nanos::seconds(60),
              "Between two looks at a server")
      .default_text("1");
  command.add_text("--record", options->record, "Also write all that the servers tell")
      .placeholder("FILE");
  command.add_text("--replay", options->replay, "Show a file of --record, in its own time")
      .placeholder("FILE");
  command.add_flag("--once", options->once,
                   "Print one screen as plain text: look twice, --interval apart, and end");
  command.add_flag("--json", options->json, "With --once: print JSON");
  command.add_parsed("--set", "NAME=VALUE",
                     [options](const std::string& text) -> Status {
                       const size_t equals = text.find('=');
                       if (equals == std::string::npos || equals == 0) {
                         return Error{"takes NAME=VALUE, not '" + text + "'"};
                       }
                       options->set.emplace_back(text.substr(0, equals), text.substr(equals + 1));
                       return Done{};
                     },
                     "Set this option of the servers, such as policy=ps or quantum settings as "
                     "set='quantum=5us', and end")
      .repeatable();
  command.add_text("--token-file", options->token_file,
                   "The token of the servers' --metrics-set-token")
      .placeholder("FILE");
  add_tls_client_options(command, options->tls, "for metrics ports of serve --tls-metrics");
  command.action([options] { return run_top(*options); });
}

const Command kTop({"", "top", "Show live servers in a terminal: rates, latencies, workers, queues",
                    add_top});

}  // namespace
}  // namespace rubato::cli
