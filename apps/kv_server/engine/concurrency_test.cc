// SPDX-License-Identifier: Apache-2.0
//
// Many threads on one engine: no update is lost, keys that change together are seen together,
// walkers see what stays exactly once. Run it under ThreadSanitizer.
#include <set>
#include <thread>

#include "base/prng.h"
#include "kv_server/engine/engine_fixture.h"
#include "kv_server/engine/memory/memory_engine.h"

namespace rubato::kv {
namespace {

class ConcurrencyTest : public EngineTest {
 protected:
  int scaled(int memory_steps) const { return persistent() ? memory_steps / 20 : memory_steps; }

  static void in_threads(int count, const std::function<void(int)>& body) {
    std::vector<std::thread> threads;
    for (int i = 0; i < count; ++i) threads.emplace_back(body, i);
    for (std::thread& thread : threads) thread.join();
  }

  void check_structure() {
    if (auto* const memory = dynamic_cast<MemoryEngine*>(engine_.get())) memory->check();
    EXPECT_EQ(keys().size(), engine_->size());
  }
};

TEST_P(ConcurrencyTest, no_increment_is_lost) {
  const int steps = scaled(10000);
  in_threads(4, [&](int) {
    for (int i = 0; i < steps; ++i) {
      char text[24];
      engine_->update("n" + std::to_string(i % 3), [&](const Current& now) {
        const long number = now.exists ? std::stol(std::string(now.value)) + 1 : 1;
        const int size = std::snprintf(text, sizeof text, "%ld", number);
        return Change::put({text, static_cast<size_t>(size)});
      });
    }
  });
  long sum = 0;
  for (const auto& [key, value] : items()) sum += std::stol(value);
  EXPECT_EQ(sum, 4L * steps);
}

TEST_P(ConcurrencyTest, keys_set_together_are_read_together) {
  const int steps = scaled(6000);
  const std::string_view both[] = {"left", "right"};
  in_threads(4, [&](int thread) {
    for (int i = 0; i < steps; ++i) {
      const std::string value = std::to_string(thread) + ":" + std::to_string(i);
      const KeyValue items[] = {{"left", value}, {"right", value}};
      engine_->set_many(items, false);
      bool same = false;
      engine_->update_many(both, [&](std::span<const Current> now, std::span<Change>) {
        same = now[0].exists && now[0].value == now[1].value;
      });
      ASSERT_TRUE(same);
    }
  });
}

TEST_P(ConcurrencyTest, readers_of_large_values_see_whole_ones) {
  const int steps = scaled(600);
  engine_->set("big", std::string(40000, 'a'));
  in_threads(4, [&](int thread) {
    std::string more;
    for (int i = 0; i < steps; ++i) {
      if (thread == 0) {
        engine_->set("big", std::string(20000 + static_cast<size_t>(i % 7) * 4000,
                                        static_cast<char>('a' + i % 26)));
      } else if (thread == 1 && i % 4 == 0) {
        engine_->update("big", [&](const Current& now) {
          const size_t size = now.value.size();
          more.assign(size < 100'000 ? 300 : 0, now.value[0]);
          return Change::splice(size, more);
        });
      } else {
        engine_->get("big", [](std::string_view value) {
          ASSERT_EQ(value.find_first_not_of(value[0]), value.npos);
        });
      }
    }
  });
}

TEST_P(ConcurrencyTest, walkers_see_what_stays_once_while_all_else_changes) {
  for (int i = 0; i < 200; ++i) engine_->set("stay" + std::to_string(i), "x");
  std::atomic<bool> stop{false};
  std::vector<std::thread> writers;
  for (int t = 0; t < 2; ++t) {
    writers.emplace_back([&, t] {
      Prng prng(test_seed() + static_cast<uint64_t>(t));
      while (!stop.load(std::memory_order_relaxed)) {
        const std::string key = "s" + std::to_string(prng.below(3000));
        SetOptions volatile_set;
        volatile_set.expires_at_ms = clock_.now_ms() + prng.below(5);
        switch (prng.below(4)) {
          case 0: engine_->erase(key); break;
          case 1: engine_->set(key, std::string(prng.below(900), 'v'), volatile_set); break;
          case 2: engine_->expire_some(20); break;
          default: engine_->set(key, std::string(prng.below(900), 'v'));
        }
        if (prng.below(50) == 0) clock_.advance(1);
      }
    });
  }
  const auto expect_all = [](const std::vector<std::string>& found) {
    std::multiset<std::string> stayed;
    for (const std::string& key : found) {
      if (key.starts_with("stay")) stayed.insert(key);
    }
    EXPECT_EQ(stayed.size(), 200u);
    EXPECT_EQ(std::set(stayed.begin(), stayed.end()).size(), 200u);
  };
  for (int round = 0; round < scaled(60); ++round) {
    expect_all(scan_all(30));
    expect_all(keys());
    std::vector<std::string> ranged;
    engine_->range({}, UINT64_MAX, [&](std::string_view key, std::string_view value) {
      EXPECT_TRUE(!key.starts_with("stay") || value == "x");
      ranged.emplace_back(key);
      return true;
    });
    EXPECT_TRUE(std::is_sorted(ranged.begin(), ranged.end()));
    expect_all(ranged);
  }
  stop = true;
  for (std::thread& writer : writers) writer.join();
  engine_->expire_some(UINT32_MAX);
  check_structure();
}

TEST_P(ConcurrencyTest, flush_may_meet_everything) {
  const int steps = scaled(3000);
  in_threads(4, [&](int thread) {
    Prng prng(test_seed() + static_cast<uint64_t>(thread));
    for (int i = 0; i < steps; ++i) {
      const std::string key = std::to_string(prng.below(500));
      if (thread == 0 && i % 50 == 0) {
        engine_->flush();
      } else if (thread == 1 && i % 20 == 0) {
        engine_->range({}, 100, [](std::string_view, std::string_view) { return true; });
        uint64_t cursor = prng.next() >> 16;
        engine_->scan(cursor, 20, [](std::string_view) { return true; });
      } else if (i % 3 == 0) {
        engine_->erase(key);
      } else {
        engine_->set(key, std::string(prng.below(600), 'v'));
      }
    }
  });
  if (!persistent()) check_structure();
  engine_->flush();
  EXPECT_EQ(engine_->size(), 0u);
  check_structure();
}

INSTANTIATE_TEST_SUITE_P(Engines, ConcurrencyTest, ::testing::Values("memory", "rocksdb"),
                         engine_name);

}  // namespace
}  // namespace rubato::kv
