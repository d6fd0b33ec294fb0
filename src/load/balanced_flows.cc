// SPDX-License-Identifier: Apache-2.0
#include "load/balanced_flows.h"

#include <algorithm>

#include "mechanism/clock/clock.h"

namespace rubato::load {

using overload::Balancer;

BalancedFlows::BalancedFlows(uint32_t servers, overload::Balancing how, uint64_t seed,
                             const Make& make, FlowEvents& events)
    : events_(events), balancer_(how, servers, seed), now_(rubato::now()) {
  for (uint32_t i = 0; i < servers; ++i) {
    servers_.push_back(std::make_unique<Server>(*this, i));
    servers_.back()->flows = make(i, *servers_.back());
  }
}

Status BalancedFlows::open_all(uint32_t count) {
  const auto servers = static_cast<uint32_t>(servers_.size());
  uint32_t first = 0;
  for (const auto& server : servers_) {
    const uint32_t share = count / servers + (server->number < count % servers ? 1 : 0);
    if (Status opened = server->flows->open_all(share); !opened) return opened;
    server->first_flow = first;
    first += share;
  }
  return Done{};
}

// A server that has no flow free keeps the request waiting, as it would with one server.
uint32_t BalancedFlows::pick(Pick of_server, Prng& prng) {
  Server& server = *servers_[balancer_.pick(now_, Balancer::kNone)];
  const uint32_t flow = (server.flows.get()->*of_server)(prng);
  if (flow != kNoFlow) return server.first_flow + flow;
  balancer_.ended(server.number);
  return kNoFlow;
}

BalancedFlows::Server& BalancedFlows::server_of(uint32_t flow) {
  const auto above = std::find_if(servers_.begin(), servers_.end(), [flow](const auto& server) {
    return server->first_flow > flow;
  });
  return **std::prev(above);
}

void BalancedFlows::send(uint32_t flow, std::string_view bytes, const Outstanding& request) {
  Server& server = server_of(flow);
  server.flows->send(flow - server.first_flow, bytes, request);
  for (uint32_t i = 0; balancer_.probes() && i < Balancer::kProbesPerRequest; ++i) {
    servers_[balancer_.draw()]->flows->ask_load();
  }
}

void BalancedFlows::push() {
  for (const auto& server : servers_) server->flows->push();
}

Status BalancedFlows::poll(Instant now) {
  now_ = now;
  for (const auto& server : servers_) {
    if (Status polled = server->flows->poll(now); !polled) return polled;
  }
  return Done{};
}

// Replies of another server than that whose turn it is wait for the turn's end.
void BalancedFlows::wait(Nanos limit) {
  constexpr Nanos kTurn = Nanos::micros(100);
  const Nanos turn = std::min(kTurn, limit / static_cast<int64_t>(servers_.size()));
  for (const auto& server : servers_) server->flows->wait(turn);
}

uint64_t BalancedFlows::outstanding() const {
  uint64_t sum = 0;
  for (const auto& server : servers_) sum += server->flows->outstanding();
  return sum;
}

uint64_t BalancedFlows::lost_here() const {
  uint64_t sum = 0;
  for (const auto& server : servers_) sum += server->flows->lost_here();
  return sum;
}

void BalancedFlows::abandon() {
  for (const auto& server : servers_) server->flows->abandon();
}

std::vector<uint64_t> BalancedFlows::replies() const {
  std::vector<uint64_t> all;
  for (const auto& server : servers_) all.push_back(server->replies);
  return all;
}

void BalancedFlows::Server::on_reply(const Outstanding& request, Instant at) {
  all.balancer_.ended(number);
  replies += request.measured ? 1 : 0;
  all.events_.on_reply(request, at);
}

void BalancedFlows::Server::on_failed(const Outstanding& request, Outcome outcome,
                                      std::string_view text) {
  all.balancer_.ended(number);
  all.events_.on_failed(request, outcome, text);
}

void BalancedFlows::Server::on_lost(const Outstanding& request) {
  all.balancer_.ended(number);
  all.events_.on_lost(request);
}

void BalancedFlows::Server::on_load(const overload::ServerLoad& load) {
  all.balancer_.learn({number, load}, all.now_);
}

}  // namespace rubato::load
