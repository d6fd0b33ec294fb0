// SPDX-License-Identifier: Apache-2.0
#include "cli/sim_elastic.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/option_text.h"
#include "cli/options.h"
#include "cli/sim_text.h"
#include "overload/cores/rule.h"
#include "overload/credit_options.h"
#include "workload/duration.h"

namespace rubato::cli {
namespace {

Status parse_admission(const std::string& text, sim::Admission& admission) {
  if (text == "none") {
    admission = sim::Admission::kNone;
  } else if (text == "aqm") {
    admission = sim::Admission::kAqm;
  } else if (text == "breakwater") {
    admission = sim::Admission::kCredits;
  } else {
    return Error{"takes none, aqm or breakwater, not '" + text + "'"};
  }
  return Done{};
}

Status parse_cores(const std::string& text, std::string& cores) {
  if (!overload::with_allocator(text, [](auto) {})) {
    return Error{"takes one of " + overload::core_rule_names() + ", not '" + text + "'"};
  }
  cores = text;
  return Done{};
}

Status parse_expiry(const std::string& text, Nanos& expiry) {
  const auto parsed = parse_duration(text);
  if (text != "never" && (!parsed || *parsed < Nanos())) {
    return Error{"takes microseconds, a time like 10us, or never; not '" + text + "'"};
  }
  expiry = text == "never" ? Nanos::max() : *parsed;
  return Done{};
}

// Added to each option: that it was given makes the run one of this kind.
template <class Parse>
auto marks(SimOptions& o, Parse parse) {
  return [&o, parse](const std::string& text) -> Status {
    o.elastic_given = true;
    return parse(text);
  };
}

template <class T>
void describe_options(std::string& text) {
  for (const OptionDescription& option : describe<T>()) {
    text += fmt::format("    {:<15}{} ({} to {}, default {})\n", option.name, option.help,
                        option.low, option.high, option.default_value);
  }
}

}  // namespace

void add_elastic_options(CLI::App& app, SimOptions& o) {
  sim::ElasticSetup& elastic = o.elastic;
  add_parsed(
      app, "--sessions", "N", marks(o, [&elastic](const std::string& text) -> Status {
        const auto parsed = parse_number(text);
        const double most = sim::ClientSettings::kMostSessions;
        if (!parsed || *parsed < 1 || *parsed > most || *parsed != std::floor(*parsed)) {
          return Error{fmt::format("takes 1 to {:.0f} sessions, not '{}'", most, text)};
        }
        elastic.clients.sessions = static_cast<uint32_t>(*parsed);
        return Done{};
      }),
      "Clients with sessions send the requests, and obey credits")
      ->default_str("none, or 100 with the options below");
  add_parsed(app, "--overload", "KIND",
             marks(o, [&elastic](const std::string& text) {
               return parse_admission(text, elastic.admission);
             }),
             "What they may send: none (whatever they like), aqm (requests are dropped while the "
             "oldest waits for too long) or breakwater (credits, and that)")
      ->default_str("breakwater");
  add_parsed(
      app, "--cores", "NAME",
      marks(o, [&elastic](const std::string& text) { return parse_cores(text, elastic.cores); }),
      "Which workers have a core, the rest being left to best-effort work: " +
          overload::core_rule_names())
      ->default_str("static");
  add_parsed(app, "--guaranteed", "N",
             marks(o, [&elastic](const std::string& text) -> Status {
               const auto parsed = parse_number(text);
               if (!parsed || *parsed < 0 || *parsed > limits::kMaxWorkers ||
                   *parsed != std::floor(*parsed)) {
                 return Error{"takes a number of cores, not '" + text + "'"};
               }
               elastic.guaranteed = static_cast<uint32_t>(*parsed);
               return Done{};
             }),
             "Cores that are never given away")
      ->default_str("0");
  add_parsed(app, "--expiry", "T",
             marks(o, [&elastic](const std::string& text) {
               return parse_expiry(text, elastic.clients.expiry);
             }),
             "A client sheds what waits longer for a credit; or never")
      ->default_str("10us");
  add_parsed(app, "--delay", "class|oldest",
             marks(o, [&elastic](const std::string& text) -> Status {
               if (text != "class" && text != "oldest") {
                 return Error{"takes class or oldest, not '" + text + "'"};
               }
               elastic.delay_by_class = text == "class";
               return Done{};
             }),
             "The delay that the server steers by: of each class against a target of its own, or "
             "of the oldest request, whatever it is")
      ->default_str("class");
}

bool is_elastic_setting(const Setting& setting) {
  return setting.policy == kCoresPrefix || setting.policy == kCreditsPrefix;
}

void finish_elastic(SimOptions& o) {
  overload::CreditOptions::Config credits;
  for (const Setting& setting : o.settings) {
    if (!is_elastic_setting(setting)) continue;
    if (!o.elastic_given) {
      bad_value("--set", setting.policy + "." + setting.name + " needs --sessions, --overload or "
                                                               "--cores");
    }
    if (setting.policy == kCoresPrefix) {
      o.elastic.cores_settings.insert_or_assign(setting.name, setting.value);
    } else if (const Status set = set_option<overload::CreditOptions>(credits, setting.name,
                                                                      setting.value);
               !set) {
      bad_value("--set", set.error());
    }
  }
  std::erase_if(o.settings, is_elastic_setting);
  if (!o.elastic_given) return;
  o.elastic.credits = credits.settings();
  const auto rule =
      overload::CoreRule::make(o.elastic.cores, o.elastic.cores_settings, o.setup.workers);
  if (!rule) bad_value("--set", rule.error());
  if (o.outcomes.given()) bad_value("--outcomes", "does not go with --sessions or --cores");
  if (o.elastic.guaranteed > o.setup.workers) {
    bad_value("--guaranteed", fmt::format("takes at most the {} --workers", o.setup.workers));
  }
  if (!o.flows_given && o.recording.empty()) {
    o.setup.workload.flows.count = o.elastic.clients.sessions;
  }
  o.setup.elastic = o.elastic;
  const auto note = [&o](const std::string& name, std::string text) {
    o.notes.emplace_back(name, std::move(text));
  };
  note("sessions", std::to_string(o.elastic.clients.sessions));
  constexpr const char* kAdmissions[] = {"none", "aqm", "breakwater"};
  note("overload", kAdmissions[static_cast<size_t>(o.elastic.admission)]);
  note("cores", o.elastic.cores);
  for (const auto& [name, value] : o.elastic.cores_settings) note("cores." + name, value);
  note("credits.target_delay_us", fmt::format("{}", o.elastic.credits.target_delay.micros()));
}

std::string elastic_lines(const sim::SimReport& report) {
  if (!report.elastic) return "";
  const sim::ElasticOutcome& e = *report.elastic;
  const uint64_t shed = std::accumulate(e.shed.begin(), e.shed.end(), uint64_t{0});
  std::string text = fmt::format(
      "cores {:.2f} on average, {:.1f} % for best-effort work; {} parks, {} wakes; shed by clients "
      "{} ({:.3f} %)\n",
      e.cores, 100 * (1 - e.granted_share), e.parks, e.wakes, shed,
      percent(shed, report.run.requests));
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
      {"shed_by_clients", std::accumulate(e.shed.begin(), e.shed.end(), uint64_t{0})},
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
  for (size_t i = 0; i < e.shed.size(); ++i) types[report.run.types[i].name] = e.shed[i];
  json["shed_by_type"] = std::move(types);
  return json.dump();
}

std::string elastic_help() {
  std::string text = "Allocators of --cores, and what --set cores.NAME=VALUE takes of them:\n";
  overload::for_each_allocator([&]<class A>(std::type_identity<A>) {
    text += fmt::format("  {:<12}{} ({})\n", A::kName, A::kSummary, A::kSource);
    describe_options<overload::CoreOptions<A>>(text);
  });
  text += "Credits of --overload breakwater, and what --set credits.NAME=VALUE takes:\n";
  describe_options<overload::CreditOptions>(text);
  return text;
}

}  // namespace rubato::cli
