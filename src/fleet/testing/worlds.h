// SPDX-License-Identifier: Apache-2.0
//
// For the tests of fleets: worlds of exponential servers on ideal machines. Single-threaded.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "fleet/world.h"

namespace rubato::fleet {

inline ServerGroup servers(uint32_t count, uint32_t workers = 1, double speed = 1) {
  ServerGroup group;
  group.count = count;
  group.policy = "cfcfs";
  group.speed = speed;
  group.setup.workers = workers;
  return group;
}

inline ClientGroup clients(const std::string& mix) {
  ClientGroup group;
  group.workload.mixes = {parse_mix(mix).value()};
  group.workload.flows.count = 64;
  return group;
}

inline ClientGroup open_clients(const std::string& mix, double rate) {
  ClientGroup group = clients(mix);
  group.workload.rate = rate;
  return group;
}

inline ClientGroup closed_clients(const std::string& mix, uint32_t users, Nanos think) {
  ClientGroup group = clients(mix);
  group.users = users;
  group.think = ServiceTime{.shape = ServiceTime::Shape::kExponential, .mean = think};
  return group;
}

inline WorldSpec world(ServerGroup servers, ClientGroup clients, int64_t seconds) {
  WorldSpec spec;
  spec.servers = {std::move(servers)};
  spec.clients = {std::move(clients)};
  spec.length = Nanos::seconds(seconds);
  return spec;
}

inline WorldOutcome outcome_of(const WorldSpec& spec) {
  auto outcome = run_world(spec);
  EXPECT_TRUE(outcome.ok()) << (outcome.ok() ? "" : outcome.error());
  return outcome.ok() ? std::move(*outcome) : WorldOutcome();
}

inline double mean_ms(const WorldOutcome& outcome) {
  return outcome.clients[0].latency.mean_ns() / 1e6;
}

// Calls per second.
inline double throughput(const WorldOutcome& outcome) {
  return static_cast<double>(outcome.clients[0].served) / outcome.measured.seconds();
}

}  // namespace rubato::fleet
