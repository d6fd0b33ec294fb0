// SPDX-License-Identifier: Apache-2.0
//
// WorldSpec: what a fleet is made of: groups of servers, groups of clients, and how clients choose
// among servers and behave when these are slow. A plain value; docs/FLEET.md explains it key by key
// for the file (fleet/world_file.h).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/option_info.h"
#include "base/result.h"
#include "base/time.h"
#include "overload/balancer.h"
#include "sim/setup.h"
#include "sim/simulation.h"
#include "workload/service_time.h"
#include "workload/source.h"

namespace rubato::fleet {

using overload::Balancing;

// From `from` to `until` something is `factor` times what it is.
struct Episode {
  Nanos from, until;
  double factor = 1;
};

struct ServerGroup {
  std::string name = "servers";
  uint32_t count = 1;
  std::string policy = "synergy";
  sim::Settings settings;  // of the policy
  double speed = 1;        // a service time is divided by it
  std::vector<Episode> slow;  // of its speed
  // Workers, costs, classification and overload control. The workload is that of the world.
  sim::Setup setup;
};

struct ClientGroup {
  std::string name = "clients";
  uint32_t machines = 1;  // each with its own sight of the servers, budgets and percentiles

  WorkloadSpec workload;   // of open clients; closed ones draw from its mix
  uint32_t users = 0;      // above 0: a closed loop of so many, over all machines
  std::optional<ServiceTime> think;  // between an answer and the next call; none = no time
  std::vector<Episode> surges;       // of the rate; open clients only

  uint32_t fan_out = 1;  // requests of a call, to servers of their own; it ends with the last
  Balancing balancing = Balancing::kRandom;
  bool shared = false;   // one sight of the servers for all machines: a balancer in between

  Nanos rtt;             // to a server and back
  std::optional<ServiceTime> jitter;  // added to each way

  Nanos timeout = Nanos::max();  // of one attempt
  uint32_t attempts = 1;         // of one request, hedges not counted
  Nanos backoff;                 // before the second attempt a random part of this, twice that...
  Nanos longest_backoff = Nanos::seconds(1);
  std::optional<double> retry_budget;  // attempts beyond the first per request; none = no limit
  bool retries_refused = true;         // after a refusal, not only after a timeout

  Nanos hedge_after = Nanos::max();  // a second copy elsewhere when the first takes so long
  double hedge_percentile = 0;       // or this percentile of the answers so far, when above 0
  double hedge_budget = 0.05;        // copies per request

  bool deadlines = false;  // servers know until when the client waits
  bool cancels = false;    // servers hear when it waits no longer
  bool heeds_levels = false;  // attempts that a limiter's level would refuse are not sent
  std::vector<std::pair<std::string, uint8_t>> priorities;  // by type: Job::priority
};

struct WorldSpec {
  static constexpr uint32_t kMostServers = 1000;
  static constexpr uint32_t kMostMachines = 10'000;
  static constexpr uint32_t kMostUsers = 1'000'000;
  static constexpr uint32_t kMostFanOut = 1000;
  static constexpr uint32_t kMostAttempts = 100;

  std::vector<ServerGroup> servers;
  std::vector<ClientGroup> clients;
  Nanos length = Nanos::seconds(10);  // in which clients make calls
  double warmup = 0.1;                // share of it whose calls are not measured
  Nanos slice = Nanos::seconds(1);    // of the timeline
  Nanos target_delay = Nanos::millis(3);  // of the weights that servers ask for
  uint64_t seed = 1;
};

// Done, or one line that names what does not fit.
Status validate(const WorldSpec& spec);

uint32_t servers_in(const WorldSpec& spec);
// Of all servers, their workers times the speeds of both.
double capacity_of(const WorldSpec& spec);

}  // namespace rubato::fleet
