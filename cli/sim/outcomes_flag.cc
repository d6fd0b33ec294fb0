// SPDX-License-Identifier: Apache-2.0
#include "cli/sim/outcomes_flag.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/name_list.h"
#include "cli/common/value_flags.h"
#include "cli/sim/sim_text.h"
#include "policy/catalog.h"
#include "sim/outcomes.h"
#include "workload/duration.h"

namespace rubato::cli {
namespace {

using namespace planning;
using sim::MoveOutcomes;

// "6.3us", or "10x" for so many mean services.
Status parse_limit(const std::string& text, OutcomesLimit& limit) {
  const bool relative = text.ends_with('x');
  const auto services = parse_number(relative ? text.substr(0, text.size() - 1) : "0");
  const auto time = relative ? std::optional<Nanos>(Nanos()) : parse_duration(text);
  if (!services || !time || (relative ? *services <= 0 || *services > 1e6 : *time <= Nanos())) {
    return Error{"takes a time like 6.3us, or 10x for ten mean services, not '" + text + "'"};
  }
  limit = {relative ? *services : 0, *time};
  return Done{};
}

std::string policies_that_move() {
  std::string names;
  for (const PolicyInfo& policy : all_policies()) {
    if (sim::moves_requests(policy.name)) add_name(names, policy.name);
  }
  return names;
}

std::string share(uint64_t part, uint64_t whole) {
  return fmt::format("{} ({:.2f} %)", part, percent(part, whole));
}

std::string line(const MoveOutcomes& m) {
  return fmt::format("outcomes of {} moved, by {}: effective {}, without harm {}, without benefit "
                     "{}, harmful {}; late of all: {} without moving, {} with it\n",
                     m.moved(), time_text(m.limit.micros()), share(m.effective, m.moved()),
                     share(m.without_harm, m.moved()), share(m.without_benefit, m.moved()),
                     share(m.harmful, m.moved()), m.late_without, m.late_with);
}

}  // namespace

void add_outcomes_option(CommandLine& command, SimOptions& o) {
  command.add_parsed(
      "--outcomes", "TIME|Nx",
      [&o](const std::string& text) { return parse_limit(text, o.outcomes); },
      "Also run with migrate=off, and say which moved requests were late (over TIME, or over N "
      "mean services) in neither, one or both");
}

void check_outcomes(const SimOptions& o) {
  if (!o.outcomes.given()) return;
  if (o.find_max) bad_value("--outcomes", "takes runs at given loads: no --find-max");
  for (const Candidate& candidate : o.candidates) {
    if (sim::moves_requests(candidate.policy)) continue;
    bad_value("--outcomes", fmt::format("'{}' has no managers that move requests; {} has",
                                        candidate.policy, policies_that_move()));
  }
}

std::string outcomes_text(const std::vector<sim::SimReport>& reports) {
  std::string text;
  for (const sim::SimReport& report : reports) {
    if (!report.moves) continue;
    if (reports.size() > 1) {
      text += fmt::format("{} at load {:.4g}, ", report.run.policy, *report.run.load);
    }
    text += line(*report.moves);
  }
  return text;
}

std::string outcomes_json(const MoveOutcomes& m) {
  return nlohmann::ordered_json{{"limit_us", m.limit.micros()},
                                {"moved", m.moved()},
                                {"effective", m.effective},
                                {"without_harm", m.without_harm},
                                {"without_benefit", m.without_benefit},
                                {"harmful", m.harmful},
                                {"late_without_moving", m.late_without},
                                {"late", m.late_with}}
      .dump();
}

}  // namespace rubato::cli
