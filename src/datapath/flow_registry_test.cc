// SPDX-License-Identifier: Apache-2.0
#include "datapath/flow_registry.h"

#include <gtest/gtest.h>

#include <map>

namespace rubato {
namespace {

class WirelessFlow final : public StreamFlow {
 public:
  WirelessFlow(FlowHost& host, uint64_t id) : StreamFlow(host, id, "nobody", Instant()) {}

  using StreamFlow::note_opened;
  using StreamFlow::note_opening;

  void abort() override {}

 protected:
  Transfer receive(char*, size_t, bool, Instant&) override { return {}; }
  Transfer transmit(std::string_view) override { return {}; }
  void hang_up() override {}
  bool rewire(FlowHost&, FlowHost&) override { return true; }
  void unwire(FlowHost&) override {}
};

TEST(FlowRegistry, turns_visit_who_stays_exactly_once_while_others_come_and_go) {
  constexpr uint64_t kFlows = 5 * FlowRegistry::kTurn + 3;
  constexpr uint64_t kStaying = 3;  // every third flow
  FlowHost host;
  FlowRegistry registry;
  std::map<uint64_t, std::unique_ptr<WirelessFlow>> flows;
  const auto add = [&](uint64_t id) {
    flows[id] = std::make_unique<WirelessFlow>(host, id);
    registry.add(*flows[id]);
  };
  for (uint64_t id = 0; id < kFlows; ++id) add(id);

  std::map<uint64_t, int> visits;
  uint64_t next_id = kFlows;
  const auto come_and_go = [&] {
    // From both ends and the middle, so that gaps are filled everywhere.
    const uint64_t turn = next_id - kFlows;
    for (const uint64_t id : {turn, kFlows / 2 + turn, kFlows - 1 - turn}) {
      if (id % kStaying == 0 || flows.count(id) == 0) continue;
      registry.remove(*flows[id]);
      flows.erase(id);
    }
    add(next_id++);
  };
  registry.visit_in_turns([&](const StreamFlow& flow) { ++visits[flow.id()]; }, come_and_go);
  EXPECT_GT(next_id, kFlows);
  for (uint64_t id = 0; id < kFlows; id += kStaying) EXPECT_EQ(visits[id], 1) << id;
  for (const auto& [id, count] : visits) EXPECT_EQ(count, 1) << id;
}

TEST(FlowRegistry, who_is_at_the_handshake_for_too_long_is_closed_and_nobody_else) {
  DrainFlag<> draining;
  FlowHost host;
  host.draining = &draining;
  FlowRegistry registry;
  WirelessFlow plain(host, 1);
  WirelessFlow opening(host, 2);
  WirelessFlow opened(host, 3);
  opening.note_opening();
  opened.note_opening();
  opened.note_opened();
  for (WirelessFlow* flow : {&plain, &opening, &opened}) registry.add(*flow);
  SweepRule rule;
  rule.opening_limit = Nanos::seconds(10);
  rule.shrink_after = Nanos::max();
  EXPECT_EQ(registry.sweep(3, Instant() + Nanos::seconds(9), rule), 0U);
  EXPECT_EQ(registry.sweep(3, Instant() + Nanos::seconds(10), rule), 1U);
  EXPECT_EQ(opening.state(), FlowState::kClosing);
  EXPECT_EQ(plain.state(), FlowState::kIdle);
  EXPECT_EQ(opened.state(), FlowState::kIdle);
  for (WirelessFlow* flow : {&plain, &opening, &opened}) registry.remove(*flow);
}

}  // namespace
}  // namespace rubato
