// SPDX-License-Identifier: Apache-2.0
//
// The output of `rubato sim`. Pure functions; safe on every thread.
#pragma once

#include <string>
#include <vector>

#include "planning/slo.h"
#include "sim/report.h"

namespace rubato::cli {

// The tables for people: one run in full, one row per load, or one row per policy for each load.
// Figures of several seeds are means, with half of their 95 % confidence interval after a +-. An
// SLO, if there is one, is said to be met or missed, or unsure when it lies within the interval.
std::string sim_table(const sim::SimReport& report, const planning::Slo& slo);
std::string sweep_table(const std::vector<sim::SimReport>& reports, const planning::Slo& slo);
// `policies` rows per load.
std::string compare_table(const std::vector<sim::SimReport>& reports, size_t policies,
                          const planning::Slo& slo);

// The policy's text about its last plan, under a head that names the load; empty if there is none.
std::string plan_lines(const sim::SimReport& report);

// The object `rubato.run/1`; for several of them in "runs", an object of the given schema:
// `rubato.sweep/1` with one per load, `rubato.compare/1` with one per load and policy. A run has
// keys beside the contract's: "simulation"; "plan", a list of sentences, if the policy has any;
// "confidence", of several seeds, which repeats the structure of the run with half-widths of its
// 95 % intervals; "slo", "outcomes" and "over_time", if asked for.
std::string sim_json(const sim::SimReport& report, const planning::Slo& slo);
std::string runs_json(const char* schema, const std::vector<sim::SimReport>& reports,
                      const planning::Slo& slo);

}  // namespace rubato::cli
