// SPDX-License-Identifier: Apache-2.0
//
// What `rubato sim` prints and writes. Pure functions; safe on every thread.
#pragma once

#include <string>
#include <vector>

#include "sim/report.h"

namespace rubato::cli {

// The tables for people: one run in full, or one row per load. Figures of several seeds are means,
// with half of their 95 % confidence interval after a +-.
std::string sim_table(const sim::SimReport& report);
std::string sweep_table(const std::vector<sim::SimReport>& reports);

// The object `rubato.run/1` and, for sweeps, `rubato.sweep/1` with one of them per load in "runs".
// A run has two keys more than the contract: "simulation" and, of several seeds, "confidence",
// which repeats the structure of the run with half-widths of its 95 % intervals.
std::string sim_json(const sim::SimReport& report);
std::string sweep_json(const std::vector<sim::SimReport>& reports);

}  // namespace rubato::cli
