// SPDX-License-Identifier: Apache-2.0
#include "base/intrusive_list.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace rubato {
namespace {

struct Item {
  char name;
  ListLinks<Item> links{};
};
using List = IntrusiveList<Item, &Item::links>;

std::string names(const List& list) {
  std::string all;
  for (const Item* item = list.first(); item != nullptr; item = List::next(*item)) {
    all += item->name;
  }
  return all;
}

TEST(IntrusiveList, keeps_the_order_whoever_leaves) {
  std::array<Item, 4> items{{{'a'}, {'b'}, {'c'}, {'d'}}};
  List list;
  EXPECT_TRUE(list.empty());
  EXPECT_EQ(list.pop_front(), nullptr);
  for (Item& item : items) list.push_back(item);
  EXPECT_EQ(names(list), "abcd");
  list.erase(items[1]);
  EXPECT_FALSE(List::has(items[1]));
  EXPECT_EQ(names(list), "acd");
  list.erase(items[3]);
  list.push_back(items[1]);
  EXPECT_EQ(names(list), "acb");
  EXPECT_EQ(list.pop_front(), &items[0]);
  list.erase(items[2]);
  list.erase(items[1]);
  EXPECT_TRUE(list.empty());
  list.push_back(items[0]);
  EXPECT_EQ(names(list), "a");
}

}  // namespace
}  // namespace rubato
