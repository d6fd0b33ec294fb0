// SPDX-License-Identifier: Apache-2.0
//
// Parts of a run: generators in processes of their own, here (`--processes`) or under agents on
// other machines (`--agents`), each with its share of the rate and of the connections. Main thread.
#pragma once

#include <csignal>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "cli/load/combine_reports.h"
#include "load/target.h"

namespace rubato::cli {

inline constexpr uint32_t kMostParts = 256;

// Seeds of parts lie this far apart: a generator draws from a few above its own.
inline constexpr uint64_t kPartSeedStep = 1000;

struct Part {
  std::string name;               // "process 2", "agent 10.0.0.2:7401"
  std::vector<std::string> args;  // those of its generator, behind `rubato load`
  load::Target agent;             // without a host: a process here
};

// The share of part `i` of `whole` things.
uint64_t share_of(uint64_t whole, size_t i, size_t parts);

// What stands in no argument.
struct PartSecrets {
  std::string token;     // of the agents
  std::string password;  // of the server
};

// Starts all parts; when the connections of all stand, they begin at once, and `limit` runs from
// then on. At `*stop` they are told to end and have kStopPatience for their reports. Fails with one
// line if one of them makes no report, or not in time, and ends the others then.
Result<std::vector<PartReport>> run_parts(const std::vector<Part>& parts,
                                          const PartSecrets& secrets, Nanos limit,
                                          const volatile std::sig_atomic_t* stop);

inline constexpr Nanos kReadyPatience = Nanos::seconds(60);
inline constexpr Nanos kStopPatience = Nanos::seconds(10);

}  // namespace rubato::cli
