// SPDX-License-Identifier: Apache-2.0
#include "base/memory_account.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <utility>
#include <vector>

namespace rubato {
namespace {

TEST(MemoryAccount, without_a_limit_it_counts_and_refuses_nothing) {
  MemoryAccount account;
  MemoryShare share(&account);
  EXPECT_TRUE(share.resize(size_t{1} << 40));
  EXPECT_EQ(account.used(), uint64_t{1} << 40);
  EXPECT_EQ(account.room_for_data(), UINT64_MAX);
}

TEST(MemoryAccount, data_and_buffers_share_the_limit) {
  MemoryAccount account;
  account.set_limit(160'000);
  EXPECT_EQ(account.room_for_data(), 150'000u);  // the rest is for buffers alone
  account.note_data(100'000);
  MemoryShare share(&account);
  EXPECT_TRUE(share.resize(57'500));  // and 2500 for first buffers
  EXPECT_EQ(account.room_for_data(), 100'000u);
  EXPECT_FALSE(share.resize(57'501));
  EXPECT_EQ(account.used(), 157'500u);
  EXPECT_EQ(account.refused(), 1u);
  EXPECT_TRUE(share.resize(2000));
  EXPECT_EQ(account.used(), 102'000u);
  EXPECT_TRUE(account.has_plenty());
  account.note_data(120'000);
  EXPECT_FALSE(account.has_plenty());
}

TEST(MemoryAccount, stacks_count_like_the_others) {
  MemoryAccount account;
  account.set_limit(160'000);
  account.note_stacks(50'000);
  EXPECT_EQ(account.room_for_data(), 100'000u);
  account.note_data(100'000);
  MemoryShare share(&account);
  EXPECT_FALSE(share.resize(7501));
  EXPECT_TRUE(share.resize(7500));
  EXPECT_EQ(account.used(), 157'500u);
  account.note_stacks(0);
  EXPECT_TRUE(share.resize(20'000));
}

TEST(MemoryAccount, a_first_buffer_is_refused_where_nothing_is_left) {
  MemoryAccount account;
  account.set_limit(2000);
  account.note_data(1000);
  MemoryShare share(&account);
  EXPECT_TRUE(share.resize(900));
  EXPECT_FALSE(share.resize(1001));
  EXPECT_TRUE(share.resize(1000));
  EXPECT_EQ(account.used(), account.limit());
  EXPECT_FALSE(MemoryShare(&account).resize(1));
  EXPECT_EQ(account.refused(), 2u);
  EXPECT_EQ(account.room_for_data(), 969u);
}

TEST(MemoryAccount, first_buffers_have_a_part_that_others_leave_and_no_more) {
  MemoryAccount account;
  account.set_limit(640'000);
  MemoryShare large(&account);
  EXPECT_TRUE(large.resize(630'000));
  EXPECT_FALSE(large.resize(630'001));
  account.note_data(account.room_for_data());
  std::vector<MemoryShare> first;
  for (int i = 0; i < 9; ++i) {
    EXPECT_TRUE(first.emplace_back(&account).resize(MemoryShare::kFirstBytes));
  }
  EXPECT_FALSE(first.emplace_back(&account).resize(MemoryShare::kFirstBytes));
  EXPECT_LE(account.used(), account.limit());
}

TEST(MemoryAccount, a_share_moves_and_ends_with_its_buffer) {
  MemoryAccount account;
  {
    MemoryShare one(&account);
    EXPECT_TRUE(one.resize(5000));
    MemoryShare two = std::move(one);
    EXPECT_EQ(account.buffers(), 5000u);
    MemoryShare three(&account);
    EXPECT_TRUE(three.resize(300));
    three = std::move(two);
    EXPECT_EQ(account.buffers(), 5000u);
  }
  EXPECT_EQ(account.buffers(), 0u);
}

TEST(MemoryAccount, data_that_threads_count_are_all_there) {
  MemoryAccount account(0);
  std::vector<std::thread> threads;
  for (int64_t t = 1; t <= 4; ++t) {
    threads.emplace_back([&account, t] {
      for (int i = 0; i < 20'000; ++i) {
        account.add_data(100 * t);
        account.add_data(-99 * t);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(account.data(), 20'000u * 10);
}

TEST(MemoryAccount, of_a_buffer_and_data_that_come_at_once_one_sees_the_other) {
  MemoryAccount account(0);
  account.set_limit(10'000);
  for (int i = 0; i < 1000; ++i) {
    MemoryShare share(&account);
    bool data_fit = false;
    std::thread writer([&] {
      account.add_data(6000);
      data_fit = account.data() <= account.room_for_data();
    });
    const bool buffer_fits = share.resize(6000);
    writer.join();
    EXPECT_FALSE(buffer_fits && data_fit);
    account.add_data(-6000);
  }
}

TEST(MemoryAccount, what_never_fits_keeps_nothing_from_others) {
  MemoryAccount account;
  account.set_limit(1'000'000);
  std::atomic<bool> done{false};
  std::thread greedy([&] {
    MemoryShare share(&account);
    while (!done.load()) EXPECT_FALSE(share.resize(2'000'000));
  });
  int refused = 0;
  while (account.refused() < 3'000'000) refused += MemoryShare(&account).resize(1) ? 0 : 1;
  done.store(true);
  greedy.join();
  EXPECT_EQ(refused, 0);
}

TEST(MemoryAccount, threads_that_take_and_give_leave_it_even) {
  MemoryAccount account;
  account.set_limit(1'000'000);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&account, t] {
      for (size_t i = 1; i < 2000; ++i) {
        MemoryShare share(&account);
        static_cast<void>(share.resize(i * 97 * (t + 1)));
        EXPECT_LE(account.used(), 4'000'000u);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(account.used(), 0u);
}

}  // namespace
}  // namespace rubato
