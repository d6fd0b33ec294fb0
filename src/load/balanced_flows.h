// SPDX-License-Identifier: Apache-2.0
//
// BalancedFlows: the flows of one run to several servers of the same protocol. Each request goes to
// the server that a balancer chooses (overload/balancer.h), as one client machine of a fleet does
// (docs/FLEET.md); with Prequal each request also sends probes. One owner at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "load/flows.h"
#include "overload/balancer.h"

namespace rubato::load {

class BalancedFlows final : public Flows {
 public:
  // Makes the flows of a server, which tell `events` of theirs.
  using Make = std::function<std::unique_ptr<Flows>(uint32_t server, FlowEvents& events)>;

  BalancedFlows(uint32_t servers, overload::Balancing how, uint64_t seed, const Make& make,
                FlowEvents& events);

  // Every server gets its share of `count`, which is at least one for each.
  Status open_all(uint32_t count) override;
  uint32_t pick_idle(Prng& prng) override { return pick(&Flows::pick_idle, prng); }
  uint32_t pick_any(Prng& prng) override { return pick(&Flows::pick_any, prng); }
  void send(uint32_t flow, std::string_view bytes, const Outstanding& request) override;
  void push() override;
  Status poll(Instant now) override;
  void wait(Nanos limit) override;
  uint64_t outstanding() const override;
  uint64_t lost_here() const override;
  void abandon() override;

  // The measured replies of each server.
  std::vector<uint64_t> replies() const;

 private:
  // What one server's flows tell.
  struct Server final : FlowEvents {
    Server(BalancedFlows& its_flows, uint32_t its_number) : all(its_flows), number(its_number) {}
    void on_reply(const Outstanding& request, Instant at) override;
    void on_failed(const Outstanding& request, Outcome outcome, std::string_view text) override;
    void on_lost(const Outstanding& request) override;
    void on_closed() override { all.events_.on_closed(); }
    void on_load(const overload::ServerLoad& load) override;

    BalancedFlows& all;
    const uint32_t number;
    std::unique_ptr<Flows> flows;
    uint32_t first_flow = 0;
    uint64_t replies = 0;
  };

  using Pick = uint32_t (Flows::*)(Prng& prng);
  uint32_t pick(Pick of_server, Prng& prng);
  Server& server_of(uint32_t flow);

  FlowEvents& events_;
  overload::Balancer balancer_;
  std::vector<std::unique_ptr<Server>> servers_;
  Instant now_;
};

}  // namespace rubato::load
