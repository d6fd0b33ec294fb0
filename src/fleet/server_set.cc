// SPDX-License-Identifier: Apache-2.0
#include "fleet/server_set.h"

#include <algorithm>
#include <utility>

namespace rubato::fleet {

Result<std::unique_ptr<ServerSet>> ServerSet::make(const WorldSpec& spec, const Mix& types,
                                                   Listener& listener) {
  std::unique_ptr<ServerSet> set(new ServerSet(listener, servers_in(spec)));
  for (const ServerGroup& group : spec.servers) {
    for (uint32_t i = 0; i < group.count; ++i) {
      auto server = std::make_unique<Server>(*set, group, spec.target_delay);
      sim::Setup setup = group.setup;
      setup.workload.mixes = {types};
      setup.workload.rate = 1e6;
      setup.seed = spec.seed * 0x9e3779b97f4a7c15u + set->size() + 1;
      auto engine = sim::host_server(group.policy, group.settings, setup, *server);
      if (!engine) return Error{"servers '" + group.name + "': " + engine.error()};
      server->engine = std::move(*engine);
      set->servers_.push_back(std::move(server));
      set->follow(set->size() - 1);
    }
  }
  set->weights_.assign(set->size(), overload::AdvertisedWeight::kFull);
  return set;
}

double ServerSet::speed_of(const ServerGroup& group, Instant now) {
  double speed = group.speed;
  for (const Episode& slow : group.slow) {
    const Nanos at = now - Instant();
    if (at >= slow.from && at < slow.until) speed *= slow.factor;
  }
  return speed;
}

uint32_t ServerSet::send(uint32_t index, sim::SentRequest request) {
  Server& server = *servers_[index];
  const double service_ns = static_cast<double>(request.offer.service.count()) /
                            speed_of(server.group, request.offer.at);
  request.offer.service = Nanos(std::max<int64_t>(1, static_cast<int64_t>(service_ns + 0.5)));
  if (free_.empty()) {
    free_.push_back(static_cast<uint32_t>(inside_.size()));
    inside_.emplace_back();
  }
  const uint32_t place = free_.back();
  free_.pop_back();
  inside_[place] = {request.offer.at, request.offer.service, request.token,
                    server.in_flight};
  request.token = place;
  request.abandoned = &inside_[place].abandoned;
  ++server.in_flight;
  server.engine->send(request);
  follow(index);
  return place;
}

void ServerSet::step() {
  const uint32_t server = events_.first().source;
  now_ = events_.first().at;
  servers_[server]->engine->step();
  follow(server);
}

void ServerSet::Server::answered(uint64_t token, sim::Fate fate, Instant at) {
  const Inside request = set.inside_[token];
  set.free_.push_back(static_cast<uint32_t>(token));
  set.note(*this, request, fate, at);
}

void ServerSet::note(Server& server, const Inside& request, sim::Fate fate, Instant at) {
  --server.in_flight;
  if (fate == sim::Fate::kServed) {
    ++server.served;
    const Nanos latency = at - request.arrived;
    server.latencies.ended(request.load, latency, at);
    server.waited_ns += static_cast<double>((latency - request.service).count());
    ++server.waits;
  } else {
    ++(fate == sim::Fate::kRefused ? server.refused : server.lost);
  }
  listener_.answered(request.token, fate, fate == sim::Fate::kLost ? now_ : at);
}

overload::ServerLoad ServerSet::probe(uint32_t index, Instant now) const {
  const Server& server = *servers_[index];
  return {server.in_flight, server.latencies.expected(server.in_flight, now)};
}

const std::vector<int>& ServerSet::weights() {
  for (size_t i = 0; i < servers_.size(); ++i) {
    Server& server = *servers_[i];
    overload::ServerHealth health{.served = server.served, .refused = server.refused + server.lost,
                                  .delay = Nanos()};
    if (server.waits > 0) {
      health.delay = Nanos(static_cast<int64_t>(server.waited_ns /
                                                static_cast<double>(server.waits)));
    }
    server.waited_ns = 0;
    server.waits = 0;
    server.weight.look(health);
    weights_[i] = server.weight.drains() ? 0 : server.weight.percent();
  }
  return weights_;
}

void ServerSet::mark(Instant now) {
  for (const auto& server : servers_) {
    const sim::ServerTotals totals = server->engine->totals();
    server->marks.push_back({{now, totals.arrived, server->served, totals.inside, {}, totals.busy,
                              {}},
                             server->refused,
                             server->lost});
  }
}

std::vector<ServerOutcome> ServerSet::take_outcomes() {
  std::vector<ServerOutcome> all;
  for (const auto& server : servers_) {
    all.push_back({server->group.name, 0, server->served, server->refused, server->lost,
                   server->engine->totals().learning, std::move(server->marks)});
  }
  return all;
}

}  // namespace rubato::fleet
