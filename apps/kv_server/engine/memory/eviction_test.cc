// SPDX-License-Identifier: Apache-2.0
//
// Making room by removing keys, and sharing the limit with the buffers of connections.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/prng.h"
#include "kv_server/engine/engine.h"
#include "kv_server/engine/engine_fixture.h"

namespace rubato::kv {
namespace {

constexpr uint64_t kLimit = 400'000;

class Evicting : public ::testing::Test {
 protected:
  void open(Eviction eviction, MemoryAccount* account = nullptr) {
    EngineOptions options;
    options.clock = &clock_;
    options.hash_seed = 42;
    options.maxmemory_bytes = kLimit;
    options.eviction = eviction;
    options.account = account;
    engine_ = std::move(open_memory_engine(options).value());
  }
  bool has(const std::string& key) {
    Info info;
    return engine_->info(key, info) == Outcome::kDone;
  }
  void use(const std::string& key) { engine_->get(key, [](std::string_view) {}); }
  Outcome set(int i, int64_t lives_ms = 0) {
    SetOptions options;
    if (lives_ms > 0) options.expires_at_ms = clock_.now_ms() + lives_ms;
    return engine_->set("k" + std::to_string(i), value_, options);
  }

  const std::string value_ = std::string(1000, 'v');
  TurnedClock clock_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(Evicting, what_is_used_stays_and_what_is_not_goes) {
  open(Eviction::kLru);
  for (int i = 0; i < 5000; ++i) {
    ASSERT_EQ(set(i), Outcome::kDone);
    clock_.advance(1);
    for (int hot = 0; hot < 20; ++hot) use("k" + std::to_string(hot));
    ASSERT_LE(engine_->stats().used_bytes, kLimit);
  }
  for (int hot = 0; hot < 20; ++hot) EXPECT_TRUE(has("k" + std::to_string(hot))) << hot;
  EXPECT_TRUE(has("k4999"));
  int newer = 0;
  for (int i = 4800; i < 5000; ++i) newer += has("k" + std::to_string(i)) ? 1 : 0;
  EXPECT_GT(newer, 150);
  EXPECT_EQ(engine_->stats().evicted, 5000 - engine_->size());
}

TEST_F(Evicting, of_few_keys_the_one_that_was_used_least_recently_goes) {
  open(Eviction::kLru);
  const std::string large(100'000, 'v');
  for (const char* key : {"a", "b", "c"}) {
    ASSERT_EQ(engine_->set(key, large), Outcome::kDone);
    clock_.advance(1);
  }
  use("a");
  clock_.advance(1);
  ASSERT_EQ(engine_->set("d", large), Outcome::kDone);
  EXPECT_TRUE(has("a") && !has("b") && has("c") && has("d"));
}

TEST_F(Evicting, the_soonest_expiry_goes_first_and_keys_without_one_stay) {
  open(Eviction::kVolatileTtl);
  int stored = 0;
  while (stored < 100) set(stored++);
  while (engine_->stats().evicted == 0) {
    ASSERT_EQ(set(stored, 1'000'000 - stored), Outcome::kDone);
    ++stored;
  }
  EXPECT_FALSE(has("k" + std::to_string(stored - 2)));
  EXPECT_TRUE(has("k100"));
  for (int i = 0; i < 1000; ++i) set(stored + i);
  EXPECT_TRUE(has("k0") && has("k99"));
  EXPECT_EQ(engine_->stats().volatile_keys, 0u);
  EXPECT_EQ(set(9999), Outcome::kOutOfMemory);
}

TEST_F(Evicting, every_kind_of_write_makes_room) {
  open(Eviction::kLru);
  for (int i = 0; i < 1000; ++i) set(i);
  const uint64_t evicted = engine_->stats().evicted;
  int calls = 0;
  EXPECT_EQ(engine_->update("long", [&](const Current&) {
    ++calls;
    return Change::splice(0, value_);
  }), Outcome::kDone);
  EXPECT_GE(calls, 1);
  std::vector<std::string> names;
  std::vector<KeyValue> items;
  for (int i = 0; i < 50; ++i) names.push_back("many" + std::to_string(i));
  for (const std::string& name : names) items.push_back({name, value_});
  EXPECT_EQ(engine_->set_many(items, true), Outcome::kDone);
  for (const std::string& name : names) EXPECT_TRUE(has(name));
  EXPECT_GE(engine_->stats().evicted, evicted + 50);
}

TEST_F(Evicting, a_value_that_fits_nowhere_removes_nothing) {
  open(Eviction::kLru);
  for (int i = 0; i < 1000; ++i) set(i);
  const uint64_t keys = engine_->size();
  EXPECT_EQ(engine_->set("huge", std::string(kLimit, 'x')), Outcome::kOutOfMemory);
  EXPECT_EQ(engine_->size(), keys);
}

TEST_F(Evicting, data_leave_what_buffers_have_taken) {
  MemoryAccount account;
  open(Eviction::kNone, &account);
  MemoryShare buffer(&account);
  ASSERT_TRUE(buffer.resize(kLimit / 2));
  int stored = 0;
  while (set(stored) == Outcome::kDone) ++stored;
  EXPECT_LE(account.used(), kLimit);
  // The last thing that a key may need, a node of each level of the index, and the part for small
  // buffers are left.
  EXPECT_GT(account.used(), kLimit - kLimit / 64 - 9000);
  EXPECT_FALSE(buffer.resize(kLimit / 2 + 5000));
  ASSERT_TRUE(buffer.resize(0));
  EXPECT_EQ(set(stored), Outcome::kDone);
  // A part stays for buffers.
  while (set(stored) == Outcome::kDone) ++stored;
  EXPECT_LE(account.used(), kLimit - kLimit / 16 + 64);
  EXPECT_TRUE(buffer.resize(kLimit / 16 - kLimit / 64));
  engine_->flush();
  EXPECT_LT(account.data(), 50'000u);
}

// Its place in the heap of expiries, for which a full store has some room left.
TEST_F(Evicting, a_first_expiry_asks_for_room) {
  MemoryAccount account;
  open(Eviction::kNone, &account);
  int stored = 0;
  const auto name = [](int i) { return "k" + std::to_string(i); };
  while (engine_->set(name(stored), "") == Outcome::kDone) ++stored;
  const int64_t later = clock_.now_ms() + 1'000'000;
  int expiring = 0;
  Outcome outcome = Outcome::kDone;
  for (; expiring < stored && outcome == Outcome::kDone; ++expiring) {
    outcome = engine_->update(name(expiring), [&](const Current&) {
      return Change::expire(later);
    });
  }
  EXPECT_EQ(outcome, Outcome::kOutOfMemory);
  EXPECT_GT(expiring, 100);
  EXPECT_LE(account.data(), account.room_for_expiries());
  SetOptions expires;
  expires.expires_at_ms = later;
  EXPECT_EQ(engine_->set(name(stored - 1), "", expires), Outcome::kOutOfMemory);
  // Nothing grows.
  EXPECT_EQ(engine_->set(name(0), "", expires), Outcome::kDone);
  engine_->set_eviction(Eviction::kLru);
  EXPECT_EQ(engine_->set(name(stored - 1), "", expires), Outcome::kDone);
  EXPECT_GT(engine_->stats().evicted, 0u);
}

// Keys that lie far apart in the order, so that many leaves are split.
TEST_F(Evicting, nodes_of_the_index_for_many_keys_are_within_the_limit) {
  for (const Eviction eviction : {Eviction::kNone, Eviction::kLru}) {
    for (size_t count = 100; count <= 500; count += 50) {
      MemoryAccount account;
      open(eviction, &account);
      Prng prng(count);
      Outcome outcome = Outcome::kDone;
      for (int i = 0; i < 50 && outcome == Outcome::kDone; ++i) {
        std::vector<std::string> names(count);
        std::vector<KeyValue> items;
        for (std::string& name : names) items.push_back({name = std::to_string(prng.next()), "v"});
        const uint64_t keys = engine_->size();
        outcome = engine_->set_many(items, false);
        ASSERT_LE(account.data(), account.room_for_data()) << count << " keys, call " << i;
        ASSERT_EQ(account.data(), engine_->stats().used_bytes);
        if (outcome != Outcome::kDone) {
          EXPECT_EQ(engine_->size(), keys);
        }
      }
      EXPECT_EQ(outcome, eviction == Eviction::kNone ? Outcome::kOutOfMemory : Outcome::kDone);
    }
  }
}

TEST_F(Evicting, what_a_change_adds_is_never_counted_twice) {
  MemoryAccount account;
  open(Eviction::kNone, &account);
  const std::string large(kLimit / 2, 'v');
  std::atomic<bool> over{false};
  uint64_t most = 0;
  std::thread reader([&] {
    while (!over) most = std::max(most, account.data());
  });
  for (int i = 0; i < 4'000; ++i) {
    EXPECT_EQ(engine_->set("k", large), Outcome::kDone);
    EXPECT_EQ(engine_->erase("k"), Outcome::kDone);
  }
  over = true;
  reader.join();
  EXPECT_LE(most, account.room_for_data());
}

TEST_F(Evicting, the_account_has_what_the_engine_has) {
  MemoryAccount account;
  open(Eviction::kLru, &account);
  for (int round = 0; round < 300; ++round) {
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([this, t] {
        for (int i = 0; i < 50; ++i) set(t * 10 + i % 10, i % 3);
      });
    }
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(account.data(), engine_->stats().used_bytes) << round;
  }
}

TEST_F(Evicting, threads_that_write_and_evict_stay_within_the_limit) {
  open(Eviction::kLru);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this, t] {
      for (int i = 0; i < 3000; ++i) {
        EXPECT_EQ(set(t * 10'000 + i), Outcome::kDone);
        has("k" + std::to_string(i));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(engine_->stats().used_bytes, kLimit);
  EXPECT_GT(engine_->size(), 200u);
}

}  // namespace
}  // namespace rubato::kv
