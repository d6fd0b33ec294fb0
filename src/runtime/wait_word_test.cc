// SPDX-License-Identifier: Apache-2.0
//
// The park and unpark of a wait, under the model checker: a request that is left beside two threads
// that end its wait. Whatever the order, one of the three puts it back, once, after its fiber was
// left, and sees what the others wrote.
#include "runtime/wait_word.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "mechanism/queue/testing/model.h"

namespace rubato {
namespace {

TEST(WaitWord, the_first_claim_counts_and_tells_who_puts_the_request_back) {
  WaitWord<> early;
  EXPECT_EQ(early.why(), Wake::kNone);
  EXPECT_EQ(early.claim(Wake::kTimeout), Claim::kSeen);
  EXPECT_EQ(early.claim(Wake::kWoken), Claim::kLost);
  EXPECT_FALSE(early.settle());
  EXPECT_EQ(early.why(), Wake::kTimeout);
  WaitWord<> late;
  EXPECT_TRUE(late.settle());
  EXPECT_EQ(late.claim(Wake::kWoken), Claim::kDeliver);
  EXPECT_EQ(late.claim(Wake::kCancelled), Claim::kLost);
  EXPECT_EQ(late.why(), Wake::kWoken);
}

template <model::Weaken kWeaken>
struct Scene {
  using Sync = model::Sync<kWeaken>;

  // What goes on with the request reads what its worker has left, and what its waker brought.
  void put_back() {
    ++times;
    run->expect(static_cast<int>(left) == 1, "the request goes on before its fiber was left");
    const Wake why = word.why();
    if (why == Wake::kWoken) run->expect(static_cast<int>(brought) == 1, "a message is lost");
  }

  model::Execution* run = nullptr;
  WaitWord<Sync> word;
  model::Plain<int> left;
  model::Plain<int> brought;
  int times = 0;
};

template <model::Weaken kWeaken>
model::Report a_request_left_beside_two_wakers() {
  return model::explore(model::within(3, 3), [](model::Execution& run) {
    auto scene = std::make_shared<Scene<kWeaken>>();
    scene->run = &run;
    scene->left = 0;
    scene->brought = 0;
    run.thread([scene] {
      scene->left = 1;
      if (!scene->word.settle()) scene->put_back();
    });
    run.thread([scene] {
      scene->brought = 1;
      if (scene->word.claim(Wake::kWoken) == Claim::kDeliver) scene->put_back();
    });
    run.thread([scene] {
      if (scene->word.claim(Wake::kTimeout) == Claim::kDeliver) scene->put_back();
    });
    run.finally([scene, &run] { run.expect(scene->times == 1, "put back not once"); });
  });
}

TEST(WaitWord, a_request_is_put_back_once_and_after_it_was_left) {
  const model::Report report = a_request_left_beside_two_wakers<model::Weaken{}>();
  EXPECT_EQ(report.failure, "");
  EXPECT_GE(report.executions, 20u);
  RecordProperty("executions", std::to_string(report.executions));
}

TEST(WaitWord, it_would_not_without_acquire_and_release) {
  constexpr model::Weaken kExchanges{.exchanges = true};
  constexpr model::Weaken kLoads{.loads = true};
  EXPECT_NE(a_request_left_beside_two_wakers<kExchanges>().failure, "");
  EXPECT_NE(a_request_left_beside_two_wakers<kLoads>().failure, "");
}

}  // namespace
}  // namespace rubato
