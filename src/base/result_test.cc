// SPDX-License-Identifier: Apache-2.0
#include "base/result.h"

#include <memory>

#include <gtest/gtest.h>

namespace rubato {
namespace {

Result<int> half(int n) {
  if (n % 2 != 0) return Error{"half takes even numbers"};
  return n / 2;
}

TEST(Result, holds_a_value_or_one_line_of_trouble) {
  EXPECT_TRUE(half(4).ok());
  EXPECT_EQ(half(4).value(), 2);
  EXPECT_FALSE(half(3));
  EXPECT_EQ(half(3).error(), "half takes even numbers");
}

TEST(Result, hands_out_values_that_cannot_be_copied) {
  Result<std::unique_ptr<int>> result(std::make_unique<int>(7));
  const std::unique_ptr<int> taken = std::move(result).value();
  EXPECT_EQ(*taken, 7);
}

TEST(Result, distinguishes_a_string_value_from_an_error) {
  const Result<std::string> value(std::string("fine"));
  const Result<std::string> error(Error{"broken"});
  EXPECT_TRUE(value.ok());
  EXPECT_FALSE(error.ok());
}

TEST(Result, reaches_members_through_the_arrow) {
  Result<std::string> result(std::string("four"));
  EXPECT_EQ(result->size(), 4u);
  *result += "teen";
  EXPECT_EQ(result.value(), "fourteen");
}

TEST(ResultDeathTest, value_of_an_error_is_a_bug) {
  EXPECT_DEATH(static_cast<void>(half(3).value()), "check failed");
  EXPECT_DEATH(static_cast<void>(half(4).error()), "check failed");
}

TEST(Status, success_carries_nothing) {
  const Status status = Done{};
  EXPECT_TRUE(status.ok());
}

}  // namespace
}  // namespace rubato
