// SPDX-License-Identifier: Apache-2.0
#include "datapath/input_buffer.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

namespace rubato {
namespace {

void put(InputBuffer& buffer, std::string_view bytes, size_t wanted = 0) {
  while (!bytes.empty()) {
    buffer.make_room(wanted);
    const size_t n = std::min(bytes.size(), buffer.room_size());
    ASSERT_GT(n, 0u);
    std::memcpy(buffer.room(), bytes.data(), n);
    buffer.received(n);
    bytes.remove_prefix(n);
  }
}

TEST(InputBuffer, holds_nothing_before_and_after_use) {
  BufferPool pool;
  InputBuffer buffer(pool);
  EXPECT_EQ(buffer.capacity(), 0u);
  put(buffer, "hello");
  EXPECT_EQ(buffer.unread(), "hello");
  EXPECT_EQ(buffer.capacity(), BufferPool::kBlockBytes);
  buffer.consume(5);
  buffer.rest();
  EXPECT_EQ(buffer.capacity(), 0u);
}

TEST(InputBuffer, block_goes_round_through_the_pool) {
  BufferPool pool;
  char* first = pool.take();
  pool.give(first);
  EXPECT_EQ(pool.take(), first);
  pool.give(first);
}

TEST(InputBuffer, unfinished_rest_keeps_only_its_size) {
  BufferPool pool;
  InputBuffer buffer(pool);
  put(buffer, "done rest");
  buffer.consume(5);
  buffer.rest();
  EXPECT_EQ(buffer.unread(), "rest");
  EXPECT_EQ(buffer.capacity(), 4u);
  put(buffer, " more");
  EXPECT_EQ(buffer.unread(), "rest more");
}

TEST(InputBuffer, grows_and_moves_without_losing_bytes) {
  BufferPool pool;
  InputBuffer buffer(pool);
  std::string expected;
  for (int i = 0; i < 20000; ++i) {
    const std::string text = std::to_string(i) + ",";
    put(buffer, text);
    expected += text;
    if (i % 7 == 3) {
      buffer.consume(3);
      expected.erase(0, 3);
    }
    if (i % 1000 == 0) buffer.rest();
    ASSERT_TRUE(buffer.unread() == expected) << "after " << i;
  }
}

TEST(InputBuffer, known_length_bounds_growth) {
  BufferPool pool;
  InputBuffer buffer(pool);
  put(buffer, std::string(20000, 'x'), 20000);
  EXPECT_EQ(buffer.capacity(), 20000u);
}

}  // namespace
}  // namespace rubato
