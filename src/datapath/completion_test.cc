// SPDX-License-Identifier: Apache-2.0
//
// StreamFlow::finished and the owner's loop on FlowOwnership and the list of completions, in every
// order of their steps: no completion is left in an idle flow, and no thread touches a flow that
// may be freed.
#include <gtest/gtest.h>

#include <vector>

#include "datapath/flow_ownership.h"
#include "datapath/push_list.h"

namespace rubato {
namespace {

struct Item {
  Item* next_in_list = nullptr;
};

constexpr int kFinishers = 3;

// Each finisher pushes, raises the gate, owns the flow if that took it, and is through. The owner
// takes what is completed, and lets go or, when all are completed, closes.
class Interleavings {
 public:
  int explore() {
    walk({});
    return runs_;
  }

 private:
  enum class Step : uint8_t { kPush, kEvent, kTake, kRelease, kLeave, kDone };

  struct World {
    FlowOwnership<> ownership;
    PushList<Item> completed;
    Item items[kFinishers];
    Step steps[kFinishers] = {};
    int taken = 0;
    int left = 0;
    bool closed = false;
  };

  static bool may_be_freed(const World& w) { return w.closed && w.left == kFinishers; }

  static void step(World& w, int who) {
    EXPECT_FALSE(may_be_freed(w));
    Step& at = w.steps[who];
    switch (at) {
      case Step::kPush:
        w.completed.push(w.items[who]);
        at = Step::kEvent;
        return;
      case Step::kEvent: at = w.ownership.event() ? Step::kTake : Step::kLeave; return;
      case Step::kTake:
        for (Item* item = w.completed.take_all_in_order(); item != nullptr;
             item = item->next_in_list) {
          ++w.taken;
        }
        at = Step::kRelease;
        return;
      case Step::kRelease:
        if (w.taken == kFinishers) {
          w.ownership.close();
          w.closed = true;
          at = Step::kLeave;
        } else {
          at = w.ownership.release() ? Step::kLeave : Step::kTake;
        }
        return;
      case Step::kLeave:
        ++w.left;
        at = Step::kDone;
        return;
      case Step::kDone: return;
    }
  }

  void walk(std::vector<int> path) {
    World w;
    for (const int who : path) step(w, who);
    bool any = false;
    for (int who = 0; who < kFinishers; ++who) {
      if (w.steps[who] == Step::kDone) continue;
      any = true;
      path.push_back(who);
      walk(path);
      path.pop_back();
    }
    if (any) return;
    ++runs_;
    EXPECT_EQ(w.taken, kFinishers);
    EXPECT_TRUE(may_be_freed(w));
    EXPECT_TRUE(w.completed.empty());
  }

  int runs_ = 0;
};

TEST(Completion, no_interleaving_loses_one_or_uses_a_freed_flow) {
  EXPECT_GT(Interleavings().explore(), 10'000);
}

}  // namespace
}  // namespace rubato
