// SPDX-License-Identifier: Apache-2.0
#include "virtual/testing/linearizable.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "virtual/testing/kv_model.h"

namespace rubato::virt::testing {
namespace {

Recorded<Operation> done(Operation operation, int64_t called, int64_t returned) {
  return {std::move(operation), Instant(called), Instant(returned)};
}
Recorded<Operation> lost(Operation operation, int64_t called, bool may_be_refused) {
  return {std::move(operation), Instant(called), Instant::never(), may_be_refused};
}

TEST(Linearizable, operations_are_done_between_call_and_return) {
  const auto reads_after_a_write = [](int64_t called, const std::string& reply) {
    return linearizable<KeyModel, Operation>({{done({"SET", "a", {}, kOk}, 10, 20)},
                                              {done({"GET", {}, {}, reply}, called, 30)}});
  };
  EXPECT_TRUE(reads_after_a_write(21, bulk("a")));
  EXPECT_FALSE(reads_after_a_write(21, kNothing));
  EXPECT_TRUE(reads_after_a_write(15, kNothing));
}

// What a connection that broke has asked for last.
TEST(Linearizable, of_lost_operations_those_before_one_that_was_done_were_refused_or_done) {
  const auto after = [](bool may_be_refused, const std::string& reply) {
    return linearizable<KeyModel, Operation>({{lost({"APPEND", "a"}, 1, may_be_refused),
                                               lost({"APPEND", "b"}, 2, may_be_refused)},
                                              {done({"GET", {}, {}, reply}, 30, 40)}});
  };
  for (const bool may_be_refused : {false, true}) {
    EXPECT_TRUE(after(may_be_refused, bulk("ab")));
    EXPECT_TRUE(after(may_be_refused, bulk("a")));
    EXPECT_TRUE(after(may_be_refused, kNothing));
    EXPECT_EQ(after(may_be_refused, bulk("b")), may_be_refused);
    EXPECT_FALSE(after(may_be_refused, bulk("ba")));
  }
}

TEST(Linearizable, a_transaction_that_was_lost_without_memory_may_be_half_done) {
  EXPECT_TRUE((linearizable<PairModel, Operation>(
      {{lost({"SET left", "a"}, 1, true), lost({"SET right", "a"}, 1, true)},
       {done({"EXEC GET", {}, {}, "*2\r\n" + std::string(kNothing) + bulk("a")}, 30, 40)}})));
}

}  // namespace
}  // namespace rubato::virt::testing
