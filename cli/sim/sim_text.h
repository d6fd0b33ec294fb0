// SPDX-License-Identifier: Apache-2.0
//
// Figures of simulated runs as the tables of `rubato sim` and its kin write them. Pure functions;
// safe on every thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "planning/slo.h"
#include "sim/report.h"

namespace rubato::cli {

inline constexpr size_t kNameWidth = 14;  // of a policy or a request type in a table

std::string time_text(double us);
std::string ratio_text(double ratio);
std::string rate_text(double rps);

// A cell, with half of its interval after a +-; ? = the run does not tell.
std::string with_interval(double figure, double half_width, std::string (*text)(double));
std::string with_interval(const sim::SimReport& report, std::string_view path, double figure,
                          std::string (*text)(double));

// Everything but the policy and the load, as the title of a table: a line.
std::string circumstances(const sim::SimReport& report);

// "not steady: REASON; REASON".
std::string verdict_text(std::string_view verdict, const std::vector<std::string>& reasons);
std::string verdict_text(const sim::Steadiness& found);
std::string invalid_text(std::string_view reason);  // a line

// A line on latencies that were too long for a histogram; "" if there are none.
std::string overflow_line(uint64_t latencies);

// "p99_latency 212us+-4.00us (limit 300us)".
std::string figure_text(const planning::SloFigure& figure);

// Of the row for all types: not the name of one of them.
std::string name_of_all(const std::vector<std::string>& types);

double percent(uint64_t part, uint64_t whole);
std::string speed_line(uint64_t requests, uint64_t events, double wall_s);

// The type whose p99.9 slowdown is worst; null if no request was measured.
const TypeReport* worst_type(const RunReport& run);

}  // namespace rubato::cli
