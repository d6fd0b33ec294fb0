// SPDX-License-Identifier: Apache-2.0
#include "sim/policy_names.h"

#include <gtest/gtest.h>

#include "policy/all.h"

namespace rubato::sim {
namespace {

using Names = std::vector<std::string>;

TEST(PolicyNames, come_in_a_list_or_are_all_of_them) {
  Names names;
  ASSERT_TRUE(parse_policies("ps,fcfs", names).ok());
  EXPECT_EQ(names, (Names{"ps", "fcfs"}));
  ASSERT_TRUE(parse_policies("all", names).ok());
  EXPECT_EQ(names.size(), AllPolicies::kSize);
  EXPECT_FALSE(parse_policies("", names).ok());
  EXPECT_EQ(parse_policies("ps,fcfs,ps", names).error(), "names ps twice");
  EXPECT_NE(parse_policies("ps,nonsense", names).error().find("not 'nonsense'"),
            std::string::npos);
}

TEST(PolicyNames, by_an_alias_are_the_policy_itself) {
  Names names;
  ASSERT_TRUE(parse_policies("rss,shenango,ps", names).ok());
  EXPECT_EQ(names, (Names{"fcfs", "steal", "ps"}));
  EXPECT_EQ(parse_policies("fcfs,rss", names).error(), "names fcfs twice");
}

}  // namespace
}  // namespace rubato::sim
