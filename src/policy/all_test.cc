// SPDX-License-Identifier: Apache-2.0
#include "policy/all.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace rubato {
namespace {

TEST(AllPolicies, names_are_unique_and_found) {
  std::set<std::string> names;
  for_each_policy([&]<class P>(std::type_identity<P>) { names.insert(P::kName); });
  EXPECT_EQ(names.size(), AllPolicies::kSize);
  EXPECT_TRUE(with_policy(
      "synergy", []<class P>(std::type_identity<P>) { EXPECT_STREQ(P::kName, "synergy"); }));
  EXPECT_FALSE(with_policy("lottery", [](auto) { FAIL(); }));
}

TEST(AllPolicies, an_alias_names_a_policy_and_is_none) {
  for (const PolicyAlias& alias : kPolicyAliases) {
    SCOPED_TRACE(alias.name);
    EXPECT_EQ(policy_called(alias.name), alias.policy);
    EXPECT_EQ(policy_called(alias.policy), alias.policy);
    EXPECT_TRUE(with_policy(alias.name, [&]<class P>(std::type_identity<P>) {
      EXPECT_EQ(P::kName, alias.policy);
    }));
  }
}

}  // namespace
}  // namespace rubato
