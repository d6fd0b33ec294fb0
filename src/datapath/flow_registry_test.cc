// SPDX-License-Identifier: Apache-2.0
#include "datapath/flow_registry.h"

#include <gtest/gtest.h>

#include <map>

namespace rubato {
namespace {

class WirelessFlow final : public StreamFlow {
 public:
  WirelessFlow(FlowHost& host, uint64_t id) : StreamFlow(host, id, "nobody", Instant()) {}

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

}  // namespace
}  // namespace rubato
