// SPDX-License-Identifier: Apache-2.0
#include "fleet/world_file.h"

#include <toml++/toml.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "base/option_text.h"
#include "base/toml_guard.h"
#include "sched/limiter_options.h"
#include "sched/options.h"
#include "sim/cost_file.h"
#include "workload/duration.h"

namespace rubato::fleet {
namespace {

std::string in_quotes(std::string_view text) {
  constexpr size_t kShown = 40;
  std::string shown = "'";
  for (const char c : text.substr(0, kShown)) shown += c >= ' ' && c != 127 ? c : '?';
  return shown + (text.size() > kShown ? "...'" : "'");
}

// The first thing that is wrong in a file, by line.
class Faults {
 public:
  explicit Faults(std::string_view file) : file_(file) {}

  void add(const toml::source_region& where, const std::string& message) {
    const auto line = static_cast<size_t>(where.begin.line);
    if (line_ != 0 && line >= line_) return;
    line_ = line;
    message_ = message;
  }
  std::optional<Error> first() const {
    if (line_ == 0) return {};
    return Error{file_ + ":" + std::to_string(line_) + ": " + message_};
  }

 private:
  std::string file_;
  size_t line_ = 0;
  std::string message_;
};

// The keys of one table; each is taken once, and done() refuses the rest.
class Keys {
 public:
  Keys(const toml::table& table, Faults& faults) : table_(table), faults_(faults) {}

  const toml::node* find(std::string_view key) {
    known_.insert(std::string(key));
    return table_.get(key);
  }
  void fail(const toml::node& node, std::string_view key, const std::string& what) {
    faults_.add(node.source(), std::string(key) + " " + what);
  }

  // What is written as a text, for parsers of texts; numbers too.
  std::optional<std::string> text(std::string_view key) {
    const toml::node* node = find(key);
    if (node == nullptr) return {};
    const std::optional<std::string> text = node->value_exact<std::string>();
    if (text && text->find('\n') == std::string::npos) return text;
    fail(*node, key, "takes a text of one line");
    return {};
  }
  void number(std::string_view key, double& value, double low, double high) {
    const toml::node* node = find(key);
    if (node == nullptr) return;
    const std::optional<double> number = node->value<double>();
    if (!number || node->is_string() || !(*number >= low && *number <= high)) {
      return fail(*node, key, "takes a number from " + shown(low) + " to " + shown(high));
    }
    value = *number;
  }
  void count(std::string_view key, uint32_t& value, uint32_t low, uint32_t high) {
    double number = value;
    number_of(key, number, low, high);
    value = static_cast<uint32_t>(number);
  }
  void flag(std::string_view key, bool& value) {
    const toml::node* node = find(key);
    if (node == nullptr) return;
    if (!node->is_boolean()) return fail(*node, key, "takes true or false");
    value = *node->value<bool>();
  }
  void time(std::string_view key, Nanos& value) {
    const toml::node* node = find(key);
    if (node == nullptr) return;
    if (const std::optional<Nanos> time = time_in(*node)) {
      value = *time;
    } else {
      fail(*node, key, "takes a time such as \"20ms\"; a bare number is seconds");
    }
  }
  // A text that `parse` takes, or refuses in one line.
  template <class Parse>
  void parsed(std::string_view key, Parse&& parse) {
    const std::optional<std::string> given = text(key);
    if (!given) return;
    const Status status = parse(*given);
    if (!status) faults_.add(table_.get(key)->source(), std::string(key) + ": " + status.error());
  }
  // Tables in a list: `each` gets the keys of one after the other.
  template <class Each>
  void tables(std::string_view key, Each&& each) {
    const toml::node* node = find(key);
    if (node == nullptr) return;
    const toml::array* array = node->as_array();
    if (array == nullptr) return fail(*node, key, "is a list of tables");
    for (const toml::node& one : *array) {
      const toml::table* table = one.as_table();
      if (table == nullptr) return fail(one, key, "is a list of tables");
      Keys keys(*table, faults_);
      each(keys);
      keys.done();
    }
  }

  // Refuses a key that nothing would read; `needs` is what would.
  void check(std::string_view key, bool is_read, const std::string& needs) {
    const toml::node* node = table_.get(key);
    if (node != nullptr && !is_read) fail(*node, key, "needs " + needs);
  }
  // Likewise, where `other` is read in its place.
  void check_not_with(std::string_view key, std::string_view other) {
    const toml::node* node = table_.get(key);
    if (node == nullptr || table_.get(other) == nullptr) return;
    fail(*node, key, "does not go with " + std::string(other));
  }

  void done() {
    for (const auto& [key, node] : table_) {
      if (known_.contains(std::string(key.str()))) continue;
      faults_.add(key.source(), "there is no key " + in_quotes(key.str()) + " here");
    }
  }

 private:
  static std::string shown(double number) {
    return number == static_cast<double>(static_cast<int64_t>(number))
               ? std::to_string(static_cast<int64_t>(number))
               : std::to_string(number);
  }
  static std::optional<Nanos> time_in(const toml::node& node) {
    if (const auto text = node.value_exact<std::string>()) {
      return parse_duration(*text, Nanos::seconds(1));
    }
    const std::optional<double> seconds = node.value<double>();
    if (!node.is_number() || !seconds || !(*seconds >= 0 && *seconds <= 1e6)) return {};
    return Nanos::from_seconds(*seconds);
  }
  void number_of(std::string_view key, double& value, double low, double high) {
    const toml::node* node = find(key);
    if (node == nullptr) return;
    const std::optional<int64_t> number = node->value_exact<int64_t>();
    if (!number || static_cast<double>(*number) < low || static_cast<double>(*number) > high) {
      return fail(*node, key, "takes a whole number from " + shown(low) + " to " + shown(high));
    }
    value = static_cast<double>(*number);
  }

  const toml::table& table_;
  Faults& faults_;
  std::set<std::string> known_;
};

void read_episodes(Keys& keys, std::string_view key, std::vector<Episode>& episodes) {
  keys.tables(key, [&episodes](Keys& one) {
    Episode episode;
    one.time("from", episode.from);
    one.time("until", episode.until);
    one.number("factor", episode.factor, 1e-3, 1e3);
    episodes.push_back(episode);
  });
}

void read_service(Keys& keys, std::string_view key, std::optional<ServiceTime>& time) {
  keys.parsed(key, [&time](const std::string& text) -> Status {
    time = parse_service(text);
    if (time) return Done{};
    return Error{"takes a time or a distribution such as exp(10ms), not " + in_quotes(text)};
  });
}

// A table of texts; `example` has one.
void read_settings(Keys& keys, const char* key, const std::string& example,
                   const std::function<void(const std::string&, const std::string&)>& add) {
  const toml::node* node = keys.find(key);
  if (node == nullptr) return;
  const toml::table* table = node->as_table();
  if (table == nullptr) return keys.fail(*node, key, "is a table: " + example);
  for (const auto& [name, setting] : *table) {
    const std::optional<std::string> value = setting.value<std::string>();
    if (!value) keys.fail(setting, key, "takes texts: " + example);
    add(std::string(name.str()), value.value_or(""));
  }
}

void read_worker_speeds(Keys& keys, std::vector<double>& speeds) {
  const toml::node* node = keys.find("worker_speeds");
  if (node == nullptr) return;
  const toml::array* array = node->as_array();
  if (array == nullptr) return keys.fail(*node, "worker_speeds", "is a list: [1, 1, 0.5]");
  for (const toml::node& one : *array) {
    const std::optional<double> speed = one.value<double>();
    if (!one.is_number() || !speed) {
      return keys.fail(one, "worker_speeds", "takes numbers: [1, 1, 0.5]");
    }
    speeds.push_back(*speed);
  }
}

// Keys that the kind of overload control does not read.
void check_overload(Keys& keys, Overload overload) {
  const bool is_aqm = overload == Overload::kAqm;
  const bool has_target = is_aqm || overload == Overload::kCinnamon || overload == Overload::kDagor;
  keys.check("overload", overload != Overload::kCredits, "clients that take credits: not here");
  keys.check("target_delay", has_target, "overload = \"aqm\", \"cinnamon\" or \"dagor\"");
  for (const char* key : {"target_delay_long", "overload_patience", "overload_calm",
                          "overload_calm_idle", "overload_budget"}) {
    keys.check(key, is_aqm, "overload = \"aqm\"");
  }
}

// Options of the scheduler that a simulated server has, as `rubato sim` calls them.
void read_scheduler(Keys& keys, ServerGroup& group) {
  SchedulerOptions options;
  SchedulerOptions::visit(options, [&]<class T>(const OptionInfo& info, T& field) {
    const std::string_view name = info.name;
    const bool known = name == "overload" || name.starts_with("overload_") ||
                       name.starts_with("target_delay") || name == "classify";
    if (!known || name == "overload_set") return;
    keys.parsed(name, [&](const std::string& text) { return read_option(info, text, field); });
  });
  group.setup.classify = options.classify;
  if (options.refuses_late()) group.setup.refusal_rule = options.refusal_rule;
  read_settings(keys, "overload_set", R"(overload_set = {window = "100ms"})",
                [&options](const std::string& name, const std::string& value) {
                  options.overload_settings.insert_or_assign(name, value);
                });
  check_overload(keys, options.overload);
  options.workers = group.setup.workers;
  const auto limits = limiter_settings(options);
  if (limits.ok()) {
    group.setup.limiter = limits.value();
  } else {
    keys.fail(*keys.find("overload_set"), "overload_set", limits.error());
  }
}

void read_servers(Keys& keys, const WorldParts& parts, WorldSpec& spec) {
  ServerGroup group;
  if (const auto name = keys.text("name")) group.name = *name;
  keys.count("count", group.count, 1, WorldSpec::kMostServers);
  keys.count("workers", group.setup.workers = 1, 1, limits::kSimulatedWorkers);
  read_worker_speeds(keys, group.setup.worker_speeds);
  if (const auto policy = keys.text("policy")) group.policy = *policy;
  keys.number("speed", group.speed, 1e-3, 1e3);
  keys.time("long_over", group.setup.long_over);
  keys.parsed("costs", [&](const std::string& name) -> Status {
    Result<sim::Costs> costs = parts.costs(name);
    if (!costs) return Error{costs.error()};
    group.setup.costs = std::move(*costs);
    return Done{};
  });
  read_settings(keys, "set", R"(set = {quantum = "5us"})",
                [&group](const std::string& name, const std::string& value) {
                  group.settings.emplace_back(name, value);
                });
  read_scheduler(keys, group);
  keys.check("long_over", group.setup.classify == Classify::kFeedback ||
                              group.setup.classify == Classify::kDeclared,
             "classify = \"feedback\" or \"declared\"");
  read_episodes(keys, "slow", group.slow);
  spec.servers.push_back(std::move(group));
}

void read_hedge(Keys& keys, ClientGroup& group) {
  keys.parsed("hedge", [&group](const std::string& text) -> Status {
    if (text.starts_with('p')) {
      const std::optional<double> percentile = parse_number(text.substr(1));
      if (percentile && *percentile > 0 && *percentile < 100) {
        group.hedge_percentile = *percentile;
        return Done{};
      }
    } else if (const auto time = parse_duration(text, Nanos::seconds(1)); time && *time > Nanos()) {
      group.hedge_after = *time;
      return Done{};
    }
    return Error{"takes a time such as 5ms or a percentile such as p95, not " + in_quotes(text)};
  });
  keys.number("hedge_budget", group.hedge_budget, 0, 10);
  const bool hedges = group.hedge_percentile > 0 || group.hedge_after < Nanos::max();
  keys.check("hedge_budget", hedges, "hedge");
  keys.check("cancels", hedges || group.timeout < Nanos::max() || group.fan_out > 1,
             "timeout, hedge or fan_out");
}

void read_retries(Keys& keys, ClientGroup& group) {
  keys.time("timeout", group.timeout);
  keys.count("attempts", group.attempts, 1, WorldSpec::kMostAttempts);
  keys.time("backoff", group.backoff);
  keys.time("longest_backoff", group.longest_backoff);
  double budget = -1;
  keys.number("retry_budget", budget, 0, 10);
  if (budget >= 0) group.retry_budget = budget;
  keys.flag("retries_refused", group.retries_refused);
  keys.check("attempts", group.timeout < Nanos::max() || group.retries_refused,
             "timeout or retries_refused");
  for (const char* key : {"backoff", "longest_backoff", "retry_budget", "retries_refused"}) {
    keys.check(key, group.attempts > 1, "attempts above 1");
  }
  keys.check("longest_backoff", group.backoff > Nanos(), "backoff");
  keys.flag("deadlines", group.deadlines);
  keys.flag("cancels", group.cancels);
  keys.flag("heeds_levels", group.heeds_levels);
}

void read_priorities(Keys& keys, ClientGroup& group) {
  const toml::node* node = keys.find("priorities");
  if (node == nullptr) return;
  const toml::table* table = node->as_table();
  if (table == nullptr) return keys.fail(*node, "priorities", "is a table: {scan = 1}");
  for (const auto& [type, value] : *table) {
    const std::optional<int64_t> priority = value.value_exact<int64_t>();
    if (!priority || *priority < 0 || *priority > 255) {
      return keys.fail(value, "priorities", "takes levels of 0 to 255, 0 the most urgent");
    }
    group.priorities.emplace_back(std::string(type.str()), static_cast<uint8_t>(*priority));
  }
}

// What a group asks for: its load is a share of what all servers can serve.
void read_demand(Keys& keys, const WorldParts& parts, ClientGroup& group, double& load) {
  WorkloadSpec& workload = group.workload;
  keys.parsed("workload", [&](const std::string& name) { return parts.workload(name, workload); });
  keys.parsed("arrivals", [&](const std::string& text) -> Status {
    Result<ArrivalSpec> arrivals = parse_arrivals(text);
    if (!arrivals) return Error{arrivals.error()};
    if (arrivals->shape == ArrivalShape::kTrace) return Error{"takes no trace: use workload"};
    workload.arrivals = *arrivals;
    return Done{};
  });
  keys.number("rate", workload.rate, 1e-3, Arrivals::kMaxRate);
  keys.number("load", load, 1e-3, 10);
  keys.count("flows", workload.flows.count, 1, FlowSpec::kMost);
  keys.count("users", group.users, 1, WorldSpec::kMostUsers);
  read_service(keys, "think", group.think);
  read_episodes(keys, "surge", group.surges);
  for (const char* key : {"load", "rate", "arrivals", "flows"}) keys.check_not_with(key, "users");
  keys.check_not_with("rate", "load");
  keys.check("think", group.users > 0, "users");
  for (const char* key : {"arrivals", "flows"}) {
    keys.check(key, workload.trace == nullptr, "a workload that is no trace, which has its own");
  }
}

void read_clients(Keys& keys, const WorldParts& parts, WorldSpec& spec,
                  std::vector<double>& loads) {
  ClientGroup group;
  double load = 0;
  if (const auto name = keys.text("name")) group.name = *name;
  keys.count("machines", group.machines, 1, WorldSpec::kMostMachines);
  read_demand(keys, parts, group, load);
  keys.count("fan_out", group.fan_out, 1, WorldSpec::kMostFanOut);
  keys.parsed("balancer", [&group](const std::string& text) -> Status {
    return read_option(OptionInfo{"balancer", "", 0, 0, ""}, text, group.balancing);
  });
  keys.flag("shared", group.shared);
  keys.time("rtt", group.rtt);
  read_service(keys, "jitter", group.jitter);
  read_retries(keys, group);
  read_hedge(keys, group);
  read_priorities(keys, group);
  loads.push_back(load);
  spec.clients.push_back(std::move(group));
}

void read_world(const toml::table& root, Faults& faults, const WorldParts& parts, WorldSpec& spec,
                std::vector<double>& loads) {
  Keys keys(root, faults);
  keys.time("length", spec.length);
  keys.number("warmup", spec.warmup, 0, 0.99);
  keys.time("slice", spec.slice);
  keys.time("target_delay", spec.target_delay);
  uint32_t seed = 1;
  keys.count("seed", seed, 0, UINT32_MAX);
  spec.seed = seed;
  keys.tables("servers", [&](Keys& one) { read_servers(one, parts, spec); });
  keys.tables("clients", [&](Keys& one) { read_clients(one, parts, spec, loads); });
  const auto by_weight = [](const ClientGroup& group) {
    return group.balancing == Balancing::kWeights;
  };
  keys.check("target_delay", std::any_of(spec.clients.begin(), spec.clients.end(), by_weight),
             "clients with balancer = \"weights\"");
  keys.done();
}

void use_loads(const std::vector<double>& loads, WorldSpec& spec) {
  for (size_t i = 0; i < loads.size(); ++i) {
    WorkloadSpec& workload = spec.clients[i].workload;
    if (loads[i] == 0 || workload.mixes.empty()) continue;
    workload.rate = loads[i] * capacity_of(spec) * 1e9 / mean_service_ns(workload) /
                    spec.clients[i].fan_out;
  }
}

}  // namespace

WorldParts parts_without_files() {
  WorldParts parts;
  parts.costs = [](const std::string& name) -> Result<sim::Costs> {
    for (const sim::BuiltinCosts& builtin : sim::builtin_costs()) {
      if (builtin.name == name) return sim::parse_costs(builtin.text, builtin.name);
    }
    return Error{"there is no built-in cost file " + in_quotes(name)};
  };
  parts.workload = [](const std::string& name, WorkloadSpec& workload) -> Status {
    Result<Mix> mix = parse_mix(name);
    if (!mix) return Error{mix.error()};
    workload.mixes = {std::move(*mix)};
    return Done{};
  };
  return parts;
}

Result<WorldSpec> parse_world(std::string_view text, std::string_view file,
                              const WorldParts& parts) {
  const std::string where(file);
  if (const size_t line = line_beyond_toml(text); line != 0) {
    return Error{where + ":" + std::to_string(line) +
                 ": '[' needs a name or a value after it, and a letter beyond ASCII stands in "
                 "quotes, not right behind a backslash, or in a comment"};
  }
  toml::table root;
  try {
    root = toml::parse(text, file);
  } catch (const toml::parse_error& error) {
    std::string what(error.description());
    std::replace(what.begin(), what.end(), '\n', ' ');
    return Error{where + ":" + std::to_string(error.source().begin.line) + ": " + what};
  }
  WorldSpec spec;
  Faults faults(file);
  std::vector<double> loads;
  read_world(root, faults, parts, spec, loads);
  if (const std::optional<Error> error = faults.first()) return *error;
  use_loads(loads, spec);
  if (Status fits = validate(spec); !fits) return Error{where + ": " + fits.error()};
  return spec;
}

}  // namespace rubato::fleet
