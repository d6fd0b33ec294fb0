// SPDX-License-Identifier: Apache-2.0
#include "cli/tune/tune_output.h"

#include <fmt/format.h>

#include <cmath>

#include "base/limits.h"
#include "base/option_text.h"
#include "cli/sim/sim_text.h"

namespace rubato::cli {
namespace {

using namespace planning;

constexpr const char* kSafe =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:,=@+%";

std::string quoted(const std::string& text) {
  if (!text.empty() && text.find_first_not_of(kSafe) == std::string::npos) return text;
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string comment(const std::string& label, std::string text) {
  for (char& c : text) c = static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  return fmt::format("# {:<11}{}\n", label, text);
}

// A value as TOML: a text that looks like a whole number or a flag becomes one.
std::string toml_value(const std::string& value) {
  if (value == "on") return "true";
  if (value == "off") return "false";
  const bool whole = value.find_first_not_of("0123456789") == std::string::npos;
  return whole ? value : "\"" + value + "\"";
}

std::string figures_text(const SimOptions& o, const sim::SimReport& report) {
  std::string text;
  for (const SloFigure& figure : judge(o.slo, report).figures) {
    text += figure_text(figure) + ", ";
  }
  return text + fmt::format("workers busy {:.1f} %", 100 * *report.run.utilization);
}

std::string searched_text(const SimOptions& o, const TuneSummary& s) {
  return fmt::format("{} (load {:g} at most) to {} workers; {}; {} runs of {} requests",
                     s.least_workers, s.most_load, s.most_workers, fmt::join(s.policies, " "),
                     s.runs, o.setup.requests);
}

std::string assumptions(const SimOptions& o, const TuneSummary& s) {
  const std::string rate = rate_text(s.predicted->run.offered_rps);
  std::string text = comment("workload", fmt::format("{}, {} arrivals, {}, {} flows", o.workload,
                                                     o.arrivals, rate,
                                                     o.setup.workload.flows.count));
  text += comment("machine", fmt::format("costs {}", o.setup.costs.name));
  if (o.costs == "ideal") {
    text += comment("", "(nothing but service takes time; `rubato calibrate` measures a machine)");
  }
  text += comment("searched", searched_text(o, s));
  text += comment("seeds", fmt::format("{} chose the settings, {} to {} gave the figures",
                                       o.setup.seed, o.setup.seed + 1,
                                       o.setup.seed + s.predicted->seeds));
  if (s.exhausted) {
    text += comment("NOTE", "--max-runs ended the search: fewer workers may do");
  }
  return text;
}

// Scores are ratios, except the special values of planning/slo.h and planning/tune_search.h.
std::string score_text(double score) {
  if (std::isinf(score)) return "-";
  return score < kRefusedRatio ? ratio_text(score) : "refuses";
}

// How sure it is that fewer workers do not meet the SLO.
std::string certainty_text(const TuneSummary& s) {
  const uint32_t workers = s.result.ranking.front().configuration.workers;
  if (!s.result.with_fewer) {
    if (workers > s.least_workers) return "fewer workers were not tried";
    return fmt::format("fewer workers would be loaded beyond {:g}", s.most_load);
  }
  const Scored& fewer = *s.result.with_fewer;
  return fmt::format("{} that {} would not do: the best found is {}, {} to {} of its limit",
                     fewer.least > 1 && !s.exhausted ? "sure" : "not sure", workers - 1,
                     text_of(fewer.configuration), score_text(fewer.least),
                     score_text(fewer.score));
}

std::string ranking_text(const TuneResult& result) {
  std::string text = "# What each policy comes to with as many workers, its worst figure over its"
                     " limit,\n# and in brackets what that is at least:\n";
  for (const Scored& scored : result.ranking) {
    const std::string name = text_of(scored.configuration);
    const std::string least = scored.least > 0 ? score_text(scored.least) : "?";
    const std::string score = fmt::format("{} ({})", score_text(scored.score), least);
    text += fmt::format("#   {:<16} {}\n", score, name.substr(0, name.rfind(" with ")));
  }
  return text;
}

}  // namespace

std::string sim_command(const SimOptions& o, const Configuration& configuration, uint32_t seeds) {
  const sim::Setup& setup = o.setup;
  std::string text = fmt::format("rubato sim --policy {} --workers {} --workload {}",
                                 configuration.candidate.policy, configuration.workers,
                                 quoted(o.workload));
  const auto add = [&text](const char* option, const std::string& value) {
    text += fmt::format(" --{} {}", option, quoted(value));
  };
  for (const auto& [name, value] : configuration.candidate.settings) {
    add("set", name + "=" + value);
  }
  if (!o.recording.empty()) add("recording", o.recording);
  add("rate", fmt::format("{}", o.rate));
  if (o.arrivals_given) add("arrivals", o.arrivals);
  const FlowSpec& flows = setup.workload.flows;
  add("flows", fmt::format("{}{}", flows.count, flows.in_turn ? ":in-turn" : ""));
  if (flows.zipf > 0) add("zipf", fmt::format("{}", flows.zipf));
  for (const std::string& phase : o.phases) add("phase", phase);
  if (!o.misclassify.empty()) add("misclassify", o.misclassify);
  add("classify", name_of(o.setup.classify));
  add("long-over", format_time(setup.long_over));
  add("costs", o.costs);
  add("warmup", fmt::format("{}", setup.warmup));
  add("requests", std::to_string(setup.requests));
  add("seed", std::to_string(setup.seed + 1));
  add("seeds", std::to_string(seeds));
  for (const SloTarget& target : o.slo.targets) {
    add("slo", target.metric + "=" + limit_text(target.kind, target.limit));
  }
  add("slo", fmt::format("refused={}", o.slo.refused));
  return text;
}

std::string tune_config(const SimOptions& o, const TuneSummary& s) {
  const Configuration& best = s.result.ranking.front().configuration;
  std::string text =
      fmt::format("# The cheapest configuration found to meet the SLO, by `rubato tune` {}.\n"
                  "# rubato serve spin --config FILE, rubato serve kv --config FILE\n#\n",
                  s.version);
  text += comment("SLO", slo_text(o.slo));
  text += comment("predicted", figures_text(o, *s.predicted));
  text += comment("certainty", certainty_text(s));
  if (const std::string warning = learning_warning(s); !warning.empty()) {
    text += comment("NOTE", warning);
  }
  text += assumptions(o, s) + comment("again", sim_command(o, best, s.predicted->seeds)) + "#\n";
  text += ranking_text(s.result) + "\n";
  text += fmt::format("policy = \"{}\"\nworkers = {}\nclassify = \"{}\"\n", best.candidate.policy,
                      best.workers, name_of(o.setup.classify));
  if (best.candidate.settings.empty()) return text;
  text += "\n[set]\n";
  for (const auto& [name, value] : best.candidate.settings) {
    text += fmt::format("{} = {}\n", name, toml_value(value));
  }
  return text;
}

std::string learning_warning(const TuneSummary& s) {
  const sim::SimReport& report = *s.predicted;
  if (report.learning <= report.start_up) return "";
  return fmt::format("{} learns from the first {} requests (its window) of runs that leave out {}: "
                     "more --requests show what it has learned",
                     s.result.ranking.front().configuration.candidate.policy, report.learning,
                     report.start_up);
}

std::string tune_failure(const SimOptions& o, const TuneSummary& s) {
  std::string text = fmt::format("no configuration of up to {} workers meets {}", s.most_workers,
                                 slo_text(o.slo));
  if (!s.result.conceivable) text += fmt::format(", nor do {}", limits::kMaxWorkers);
  if (s.predicted) {
    text += fmt::format("; the best found is {}: {}",
                        text_of(s.result.ranking.front().configuration),
                        figures_text(o, *s.predicted));
  }
  text += fmt::format("; {} runs", s.runs);
  return s.exhausted ? text + ", which is all that --max-runs allows" : text;
}

}  // namespace rubato::cli
