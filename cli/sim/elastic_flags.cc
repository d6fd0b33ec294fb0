// SPDX-License-Identifier: Apache-2.0
#include "cli/sim/elastic_flags.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <numeric>

#include "base/option_text.h"
#include "cli/common/value_flags.h"
#include "cli/sim/sim_text.h"
#include "overload/cores/rule.h"
#include "overload/credit_options.h"
#include "sched/limiter_options.h"
#include "workload/duration.h"

namespace rubato::cli {
namespace {

// Refuses settings of cores and credits in a run without sessions.
void needs_sessions(const SchedulerOptions& scheduler) {
  if (!scheduler.cores_settings.empty()) {
    bad_value("--cores-set", "needs --cores with an allocator");
  }
  if (!scheduler.credits_settings.empty()) bad_value("--credits-set", "needs --overload credits");
  if (scheduler.guaranteed_cores != SchedulerOptions().guaranteed_cores) {
    bad_value("--guaranteed-cores", "needs --cores with an allocator");
  }
}

void note_elastic(SimOptions& o) {
  const sim::ElasticSetup& elastic = *o.setup.elastic;
  const auto note = [&o](const std::string& name, std::string text) {
    o.notes.emplace_back(name, std::move(text));
  };
  note("sessions", std::to_string(elastic.clients.sessions));
  note("overload", name_of(o.scheduler.overload));
  note("cores", elastic.cores);
  for (const auto& [name, value] : elastic.cores_settings) note("cores." + name, value);
  note("target_delay_us", fmt::format("{}", elastic.credits.target_delay.micros()));
}

}  // namespace

void add_elastic_options(CommandLine& command, SimOptions& o) {
  sim::ElasticSetup& elastic = o.elastic;
  const auto parse_sessions = [&elastic](const std::string& text) -> Status {
    const auto parsed = parse_number(text);
    const double most = sim::ClientSettings::kMostSessions;
    if (!parsed || *parsed < 1 || *parsed > most || *parsed != std::floor(*parsed)) {
      return Error{fmt::format("takes 1 to {:.0f} sessions, not '{}'", most, text)};
    }
    elastic.clients.sessions = static_cast<uint32_t>(*parsed);
    return Done{};
  };
  const auto parse_delay = [&elastic](const std::string& text) -> Status {
    if (text != "class" && text != "oldest") {
      return Error{"takes class or oldest, not '" + text + "'"};
    }
    elastic.delay_by_class = text == "class";
    return Done{};
  };
  command
      .add_parsed("--sessions", "N", parse_sessions,
                  "Clients with sessions send the requests, and obey credits")
      .default_text("none, or 100 with the options below")
      .marks(o.with_sessions);
  add_rpc_expire(command, elastic.clients.expiry).marks(o.with_sessions);
  command
      .add_parsed("--delay", "class|oldest", parse_delay,
                  "The delay that the server steers by: of each class against a target of its own, "
                  "or of the oldest request, whatever it is")
      .default_text("class")
      .marks(o.with_sessions);
}

void finish_elastic(SimOptions& o) {
  const SchedulerOptions& scheduler = o.scheduler;
  if (scheduler.refuses_late()) o.setup.refusal_rule = scheduler.refusal_rule;
  const auto limits = limiter_settings(scheduler);
  if (!limits.ok()) bad_value("--overload-set", limits.error());
  o.setup.limiter = limits.value();
  const bool credits_given = scheduler.overload == Overload::kCredits;
  if (credits_given || scheduler.allocates_cores()) o.with_sessions = true;
  if (!o.with_sessions && o.setup.limiter) {
    o.notes.emplace_back("overload", name_of(scheduler.overload));
    for (const auto& [name, value] : scheduler.overload_settings) {
      o.notes.emplace_back("overload." + name, value);
    }
  }
  if (!o.with_sessions) return needs_sessions(scheduler);
  if (o.outcomes.given()) bad_value("--outcomes", "does not go with --sessions or --cores");
  if (scheduler.guaranteed_cores > scheduler.workers) {
    bad_value("--guaranteed-cores",
              fmt::format("takes at most the {} --workers", scheduler.workers));
  }
  const auto credits =
      overload::CreditOptions::read(scheduler.credits_settings,
                                    scheduler.refusal_rule.target_delay);
  if (!credits) bad_value("--credits-set", credits.error());
  sim::ElasticSetup elastic = o.elastic;
  if (elastic.clients.expiry == Nanos()) elastic.clients.expiry = Nanos::max();
  elastic.credits = credits.value();
  elastic.uses_credits = credits_given;
  if (scheduler.allocates_cores()) elastic.cores = scheduler.cores;
  elastic.cores_settings = scheduler.cores_settings;
  elastic.guaranteed = scheduler.guaranteed_cores;
  const auto rule =
      overload::CoreRule::make(elastic.cores, elastic.cores_settings, scheduler.workers);
  const bool setting = !rule && rule.error().starts_with("cores_set");
  if (!rule) bad_value(setting ? "--cores-set" : "--cores", rule.error());
  if (!o.flows_given && o.recording.empty()) {
    o.setup.workload.flows.count = elastic.clients.sessions;
  }
  o.setup.elastic = std::move(elastic);
  note_elastic(o);
}

std::string elastic_lines(const sim::SimReport& report) {
  if (!report.elastic) return "";
  const sim::ElasticOutcome& e = *report.elastic;
  const uint64_t unsent = std::accumulate(e.unsent.begin(), e.unsent.end(), uint64_t{0});
  std::string text = fmt::format(
      "cores {:.2f} on average, {:.1f} % for best-effort work; {} parks, {} wakes; shed by clients "
      "{} ({:.3f} %)\n",
      e.cores, 100 * (1 - e.granted_share), e.parks, e.wakes, unsent,
      percent(unsent, report.run.requests));
  if (e.credits_most == 0) return text;
  return text + fmt::format("credits {:.0f} on average ({} to {}), issued {:.0f}, not in use "
                            "{:.0f}, withheld {:.0f}; sessions drained {:.1f}; messages with "
                            "credits only {}, with demand only {}; longest wait seen {}\n",
                            e.credits, e.credits_least, e.credits_most, e.credits_issued,
                            e.credits_outstanding, e.credits_withheld, e.drained,
                            e.credit_messages, e.demand_messages, time_text(e.max_delay_us));
}

std::string elastic_json(const sim::SimReport& report) {
  const sim::ElasticOutcome& e = *report.elastic;
  nlohmann::ordered_json json = {
      {"cores", e.cores},
      {"granted_share", e.granted_share},
      {"best_effort_share", 1 - e.granted_share},
      {"parks", e.parks},
      {"wakes", e.wakes},
      {"rejected", report.run.refused},
      {"unsent_by_clients", std::accumulate(e.unsent.begin(), e.unsent.end(), uint64_t{0})},
      {"goodput_rps", report.run.achieved_rps},
      {"credits",
       {{"total", e.credits},
        {"least", e.credits_least},
        {"most", e.credits_most},
        {"issued", e.credits_issued},
        {"outstanding", e.credits_outstanding},
        {"withheld", e.credits_withheld}}},
      {"drained", e.drained},
      {"credit_messages", e.credit_messages},
      {"demand_messages", e.demand_messages},
      {"longest_wait_us", e.max_delay_us}};
  nlohmann::ordered_json types = nlohmann::ordered_json::object();
  for (size_t i = 0; i < e.unsent.size(); ++i) types[report.run.types[i].name] = e.unsent[i];
  json["unsent_by_type"] = std::move(types);
  return json.dump();
}

}  // namespace rubato::cli
