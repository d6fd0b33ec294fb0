// SPDX-License-Identifier: Apache-2.0
#include "kv_server/resp/list_builder.h"

#include <gtest/gtest.h>

#include <string>

namespace rubato::kv {
namespace {

int checkpoints = 0;
bool count_checkpoint() {
  ++checkpoints;
  return false;
}

constexpr uint64_t kPlenty = uint64_t{1} << 30;

TEST(ListBuilder, writes_the_header_it_could_not_know) {
  ListBuilder list(kPlenty);
  EXPECT_TRUE(list.add("ab"));
  EXPECT_TRUE(list.add(""));
  ReplyBuffer buffer;
  Reply reply(buffer, RespVersion::k2);
  list.write_array(reply, count_checkpoint);
  EXPECT_EQ(buffer.unsent(), "*2\r\n$2\r\nab\r\n$0\r\n\r\n");
}

TEST(ListBuilder, an_empty_list_is_an_empty_array) {
  ReplyBuffer buffer;
  Reply reply(buffer, RespVersion::k2);
  ListBuilder(kPlenty).write_array(reply, count_checkpoint);
  EXPECT_EQ(buffer.unsent(), "*0\r\n");
}

TEST(ListBuilder, items_cross_chunks_and_the_copy_can_be_preempted) {
  ListBuilder list(kPlenty);
  std::string expected;
  size_t items = 0;
  for (size_t size = 1; size < 100'000; size = size * 3 + 1, ++items) {
    const std::string item(size, static_cast<char>('a' + items));
    ASSERT_TRUE(list.add(item));
    expected += "$" + std::to_string(size) + "\r\n" + item + "\r\n";
  }
  checkpoints = 0;
  ReplyBuffer buffer;
  Reply reply(buffer, RespVersion::k2);
  list.write_array(reply, count_checkpoint);
  EXPECT_EQ(buffer.unsent(), "*" + std::to_string(items) + "\r\n" + expected);
  EXPECT_GT(checkpoints, 3);
}

TEST(ListBuilder, a_list_past_its_limit_says_so) {
  ListBuilder list(20);
  EXPECT_TRUE(list.add("abc"));
  EXPECT_FALSE(list.add("a long item"));
  EXPECT_TRUE(list.too_big());
  EXPECT_EQ(list.items(), 1U);
}

}  // namespace
}  // namespace rubato::kv
