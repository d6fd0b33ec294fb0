// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <iterator>
#include <nlohmann/json.hpp>

#include "cli/bench/bench_preempt.h"
#include "cli/common/command_registry.h"
#include "cli/common/machine.h"

namespace rubato::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string cell(const Spread& spread) {
  if (spread.count == 0) return fmt::format("{:>9} {:>9}", "-", "-");
  return fmt::format("{:>9.0f} {:>9.0f}", spread.p50_ns, spread.p999_ns);
}

Json json(const Spread& spread) {
  if (spread.count == 0) return nullptr;
  return {{"p50_ns", spread.p50_ns}, {"p999_ns", spread.p999_ns}, {"count", spread.count}};
}

void add_deliveries(std::string& text, const std::vector<PreemptFigures>& figures) {
  const auto out = std::back_inserter(text);
  fmt::format_to(out, "{:<11}", "ns");
  for (const char* stage : {"send or arm", "propagation", "receive", "return", "disarm"}) {
    fmt::format_to(out, " {:>19}", stage);
  }
  fmt::format_to(out, "\n{:<11}", "");
  for (int stage = 0; stage < 5; ++stage) fmt::format_to(out, " {:>9} {:>9}", "p50", "p99.9");
  text += "\n";
  for (const PreemptFigures& one : figures) {
    fmt::format_to(out, "{:<11}", to_string(one.mechanism));
    if (!one.missing.empty()) {
      fmt::format_to(out, " not measured: {}\n", one.missing);
      continue;
    }
    const Delivery& d = one.delivery;
    fmt::format_to(out, " {} {} {} {} {}\n", cell(d.send), cell(d.propagation), cell(d.receive),
                   cell(d.come_back), cell(d.disarm));
  }
}

void add_quanta(std::string& text, const std::vector<PreemptFigures>& figures) {
  const auto out = std::back_inserter(text);
  fmt::format_to(out, "\n{:<11} {:>10} {:>19} {:>19} {:>9}\n", "us", "asked", "achieved quantum",
                 "cost, end to end", "slices");
  fmt::format_to(out, "{:<11} {:>10} {:>9} {:>9} {:>9} {:>9}\n", "", "", "p50", "p99.9", "p50",
                 "p99.9");
  for (const PreemptFigures& one : figures) {
    for (const Quantum& q : one.quanta) {
      fmt::format_to(out, "{:<11} {:>10.0f} {:>9.2f} {:>9.2f} {:>9.2f} {:>9.2f} {:>9}\n",
                     to_string(one.mechanism), q.asked.micros(), q.achieved.p50_ns / 1e3,
                     q.achieved.p999_ns / 1e3, q.cost.p50_ns / 1e3, q.cost.p999_ns / 1e3,
                     q.achieved.count);
    }
  }
}

Json json(const PreemptFigures& one) {
  Json entry{{"name", to_string(one.mechanism)}, {"measured", one.missing.empty()}};
  if (!one.missing.empty()) {
    entry["reason"] = one.missing;
    return entry;
  }
  entry["delivery"] = {{"send", json(one.delivery.send)},
                       {"propagation", json(one.delivery.propagation)},
                       {"receive", json(one.delivery.receive)},
                       {"return", json(one.delivery.come_back)},
                       {"disarm", json(one.delivery.disarm)}};
  entry["quanta"] = Json::array();
  for (const Quantum& q : one.quanta) {
    entry["quanta"].push_back({{"asked_ns", q.asked.count()},
                               {"achieved", json(q.achieved)},
                               {"cost", json(q.cost)}});
  }
  return entry;
}

}  // namespace

std::string preempt_table(const std::vector<PreemptFigures>& figures, uint32_t rounds) {
  std::string text = fmt::format(
      "The way of an interrupt (Synergy, Fig. 5.3 and Table 5.1), {} rounds\n", rounds);
  add_deliveries(text, figures);
  text += "\nTwo requests that share one worker, policy ps\n";
  add_quanta(text, figures);
  return text;
}

std::string preempt_json(const std::vector<PreemptFigures>& figures, uint32_t rounds) {
  const MachineInfo machine = this_machine();
  Json all{{"schema", "rubato.bench-preempt/1"},
           {"machine",
            {{"cpu_model", machine.cpu_model},
             {"cores", machine.cores},
             {"kernel", machine.kernel},
             {"virtualised", machine.virtualised}}},
           {"version", version()},
           {"rounds", rounds},
           {"mechanisms", Json::array()}};
  for (const PreemptFigures& one : figures) all["mechanisms"].push_back(json(one));
  return all.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace rubato::cli
