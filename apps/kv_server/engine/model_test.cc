// SPDX-License-Identifier: Apache-2.0
//
// Random commands against a std::map; RUBATO_SEED replays a run.
#include "base/prng.h"
#include "kv_server/engine/engine_fixture.h"

namespace rubato::kv {
namespace {

struct ModelValue {
  std::string value;
  int64_t expires_at_ms = kNoExpiry;
};

class ModelTest : public EngineTest {
 protected:
  using Model = std::map<std::string, ModelValue>;

  void drop_expired() {
    std::erase_if(model_, [&](const auto& item) {
      const int64_t at = item.second.expires_at_ms;
      return at != kNoExpiry && at <= clock_.now_ms();
    });
  }

  // Few enough keys that commands meet, with long common prefixes, prefixes of each other, zeros.
  std::string random_key() {
    const uint32_t n = prng_.below(400);
    switch (n % 4) {
      case 0: return "common/prefix/that/is/long/" + std::to_string(n);
      case 1: return std::string(n / 8, static_cast<char>('a' + n % 3));
      case 2: return std::string(n % 13, '\0') + static_cast<char>(n);
      default: return std::to_string(n * 7919);
    }
  }

  std::string random_value() {
    constexpr size_t kSizes[] = {0, 5, 30, 100, 511, 513, 3000, 20000};
    const size_t size = kSizes[prng_.below(prng_.below(4) == 0 ? 8 : 4)];
    return std::string(size, static_cast<char>('a' + prng_.below(26)));
  }

  int64_t random_expiry() {
    return prng_.below(3) != 0 ? kNoExpiry : clock_.now_ms() + prng_.below(200);
  }

  void put(const std::string& key, std::string value, int64_t expires_at_ms) {
    model_[key] = {std::move(value), expires_at_ms};
    drop_expired();
  }

  void change_one_key() {
    const std::string key = random_key();
    const std::string value = random_value();
    const bool exists = model_.contains(key);
    switch (prng_.below(6)) {
      case 0: {
        SetOptions options;
        options.when = static_cast<SetOptions::When>(prng_.below(3));
        options.keep_expiry = prng_.below(4) == 0;
        options.expires_at_ms = random_expiry();
        const bool holds = options.when == SetOptions::When::kAlways ||
                           exists == (options.when == SetOptions::When::kIfPresent);
        EXPECT_EQ(engine_->set(key, value, options), holds ? Outcome::kDone : Outcome::kNone);
        const int64_t kept = exists ? model_[key].expires_at_ms : kNoExpiry;
        if (holds) put(key, value, options.keep_expiry ? kept : options.expires_at_ms);
        break;
      }
      case 1:
        EXPECT_EQ(engine_->erase(key), exists ? Outcome::kDone : Outcome::kNone);
        model_.erase(key);
        break;
      case 2: {
        const int64_t at = random_expiry();
        EXPECT_EQ(engine_->update(key, [&](const Current&) { return Change::expire(at); }),
                  exists ? Outcome::kDone : Outcome::kNone);
        if (exists) put(key, model_[key].value, at);
        break;
      }
      case 3: splice(key, value); break;
      case 4: rename(key, random_key()); break;
      default: EXPECT_EQ(engine_->set(key, value), Outcome::kDone); put(key, value, kNoExpiry);
    }
  }

  void splice(const std::string& key, const std::string& bytes) {
    ModelValue now = model_.contains(key) ? model_[key] : ModelValue{};
    const size_t offset = prng_.below(static_cast<uint32_t>(now.value.size()) + 20);
    EXPECT_EQ(engine_->update(key, [&](const Current&) { return Change::splice(offset, bytes); }),
              Outcome::kDone);
    now.value.resize(std::max(now.value.size(), offset + bytes.size()), '\0');
    now.value.replace(offset, bytes.size(), bytes);
    put(key, now.value, now.expires_at_ms);
  }

  void rename(const std::string& from, const std::string& to) {
    if (from == to) return;
    const std::string_view both[] = {from, to};
    const bool exists = model_.contains(from);
    const Outcome outcome =
        engine_->update_many(both, [](std::span<const Current> now, std::span<Change> change) {
          if (!now[0].exists) return;
          change[0] = Change::erase();
          change[1] = Change::put(now[0].value, now[0].expires_at_ms);
        });
    EXPECT_EQ(outcome, exists ? Outcome::kDone : Outcome::kNone);
    if (!exists) return;
    model_[to] = model_[from];
    model_.erase(from);
  }

  void set_many() {
    std::vector<std::string> texts;
    for (int i = 0; i < 12; ++i) texts.push_back(i % 2 == 0 ? random_key() : random_value());
    std::vector<KeyValue> items;
    for (size_t i = 0; i < texts.size(); i += 2) items.push_back({texts[i], texts[i + 1]});
    EXPECT_EQ(engine_->set_many(items, false), Outcome::kDone);
    for (const auto& [key, value] : items) model_[std::string(key)] = {std::string(value)};
  }

  void compare_range() {
    const std::string start = random_key();
    const std::string end = random_key();
    const KeyRange range{start, end, prng_.below(2) == 0};
    std::map<std::string, std::string> expected;
    for (auto it = model_.lower_bound(start); it != model_.end(); ++it) {
      if (range.end_inclusive ? it->first > end : it->first >= end) break;
      expected[it->first] = it->second.value;
    }
    EXPECT_EQ(items(range), expected);
    uint64_t count = 0;
    EXPECT_EQ(engine_->count(range, count), Outcome::kDone);
    EXPECT_EQ(count, expected.size());
  }

  void compare_all() {
    std::map<std::string, std::string> expected;
    for (const auto& [key, value] : model_) expected[key] = value.value;
    EXPECT_EQ(items(), expected);
    std::vector<std::string> scanned = scan_all(1 + prng_.below(50));
    std::sort(scanned.begin(), scanned.end());
    EXPECT_EQ(scanned, keys());
    for (const auto& [key, value] : model_) {
      Info info;
      ASSERT_EQ(engine_->info(key, info), Outcome::kDone);
      EXPECT_EQ(info.expires_at_ms, value.expires_at_ms);
      EXPECT_EQ(info.value_bytes, value.value.size());
    }
    engine_->expire_some(UINT32_MAX);
    EXPECT_EQ(engine_->size(), model_.size());
  }

  void run(int steps) {
    for (int step = 0; step < steps && !HasFailure(); ++step) {
      const uint32_t dice = prng_.below(1000);
      if (dice < 20) {
        clock_.advance(prng_.below(40));
        drop_expired();
      } else if (dice < 60) {
        set_many();
      } else if (dice < 80) {
        compare_range();
      } else if (dice == 80) {
        EXPECT_EQ(engine_->flush(), Outcome::kDone);
        model_.clear();
      } else if (dice < 100) {
        engine_->expire_some(prng_.below(10));
      } else {
        change_one_key();
      }
      if (step % 500 == 0) compare_all();
      if (step % 1500 == 0 && persistent()) open();
    }
    compare_all();
  }

  Model model_;
  Prng prng_{test_seed()};
};

TEST_P(ModelTest, behaves_like_a_map) {
  SCOPED_TRACE("RUBATO_SEED=" + std::to_string(test_seed()));
  run(persistent() ? 6000 : 40000);
}

INSTANTIATE_TEST_SUITE_P(Engines, ModelTest, ::testing::Values("memory", "rocksdb"), engine_name);

}  // namespace
}  // namespace rubato::kv
