// SPDX-License-Identifier: Apache-2.0
//
// The contract of both engines.
#include <algorithm>
#include <functional>
#include <set>
#include <utility>

#include "kv_server/engine/engine_fixture.h"

namespace rubato::kv {
namespace {

using When = SetOptions::When;

std::string numbered(int i) {
  std::string digits = std::to_string(i);
  return "key:" + std::string(6 - digits.size(), '0') + digits;
}

TEST_P(EngineTest, get_returns_what_set_stored) {
  EXPECT_EQ(engine_->get("a", [](std::string_view) {}), Outcome::kNone);
  EXPECT_EQ(engine_->set("a", "1"), Outcome::kDone);
  EXPECT_EQ(get("a"), "1");
  EXPECT_EQ(engine_->set("a", ""), Outcome::kDone);
  EXPECT_EQ(get("a"), "");
}

TEST_P(EngineTest, keys_and_values_are_any_bytes_of_any_size) {
  const std::string zeros(3, '\0');
  std::map<std::string, std::string> expected{{"", "empty"}, {zeros, "z"}, {"\xff\xfe", "\0x"}};
  for (const size_t size : {1u, 511u, 512u, 513u, 5000u, 16384u, 16385u, 300000u}) {
    expected[std::string(size, 'k')] = std::string(size, 'v');
  }
  for (const auto& [key, value] : expected) EXPECT_EQ(engine_->set(key, value), Outcome::kDone);
  for (const auto& [key, value] : expected) EXPECT_EQ(get(key), value);
  EXPECT_EQ(items(), expected);
}

TEST_P(EngineTest, overwriting_with_other_sizes_keeps_the_last_value) {
  for (const size_t size : {3u, 9000u, 2u, 600u, 500u, 700u, 1200u, 20000u, 0u, 40u}) {
    const std::string value(size, static_cast<char>('a' + size % 26));
    engine_->set("k", value);
    EXPECT_EQ(get("k"), value);
    EXPECT_EQ(engine_->size(), 1u);
  }
}

TEST_P(EngineTest, set_obeys_its_conditions_and_shows_the_old_value) {
  SetOptions options{.when = When::kIfPresent};
  EXPECT_EQ(engine_->set("a", "1", options), Outcome::kNone);
  options.when = When::kIfAbsent;
  EXPECT_EQ(engine_->set("a", "1", options), Outcome::kDone);
  std::string old;
  bool existed = false;
  const auto show = [&](const Current& now) { existed = now.exists, old = now.value; };
  options.old = show;
  EXPECT_EQ(engine_->set("a", "2", options), Outcome::kNone);
  EXPECT_TRUE(existed);
  EXPECT_EQ(old, "1");
  options.when = When::kIfPresent;
  EXPECT_EQ(engine_->set("a", "3", options), Outcome::kDone);
  EXPECT_EQ(get("a"), "3");
}

TEST_P(EngineTest, set_drops_or_keeps_the_expiry_as_asked) {
  set_with_expiry("a", "1", 1000);
  engine_->set("a", "2", {.keep_expiry = true});
  Info info;
  ASSERT_EQ(engine_->info("a", info), Outcome::kDone);
  EXPECT_EQ(info.expires_at_ms, clock_.now_ms() + 1000);
  engine_->set("a", "3");
  ASSERT_EQ(engine_->info("a", info), Outcome::kDone);
  EXPECT_EQ(info.expires_at_ms, kNoExpiry);
}

TEST_P(EngineTest, an_expired_key_does_not_exist) {
  set_with_expiry("a", "1", 100);
  engine_->set("b", "2");
  clock_.advance(99);
  EXPECT_EQ(get("a"), "1");
  clock_.advance(1);
  EXPECT_EQ(keys(), std::vector<std::string>{"b"});
  EXPECT_EQ(items(), (std::map<std::string, std::string>{{"b", "2"}}));
  EXPECT_EQ(scan_all(10), std::vector<std::string>{"b"});
  uint64_t count = 0;
  engine_->count({}, count);
  EXPECT_EQ(count, 1u);
  EXPECT_EQ(get("a"), std::nullopt);
  Info info;
  EXPECT_EQ(engine_->info("a", info), Outcome::kNone);
  EXPECT_EQ(engine_->set("a", "3", {.when = When::kIfAbsent}), Outcome::kDone);
  EXPECT_EQ(get("a"), "3");
}

TEST_P(EngineTest, who_asks_for_an_expired_key_removes_it) {
  for (const char* key : {"get", "info", "erase", "many"}) set_with_expiry(key, "1", 10);
  clock_.advance(10);
  EXPECT_EQ(engine_->size(), 4u);
  EXPECT_EQ(get("get"), std::nullopt);
  Info info;
  EXPECT_EQ(engine_->info("info", info), Outcome::kNone);
  EXPECT_EQ(engine_->erase("erase"), Outcome::kNone);
  EXPECT_EQ(engine_->size(), 1u);
  EXPECT_EQ(engine_->stats().expired, 3u);
  EXPECT_EQ(engine_->stats().swept, 0u);
  EXPECT_EQ(engine_->stats().volatile_keys, 1u);
}

TEST_P(EngineTest, a_past_expiry_erases) {
  EXPECT_EQ(set_with_expiry("a", "1", -5), Outcome::kDone);
  EXPECT_EQ(get("a"), std::nullopt);
  engine_->set("a", "1");
  EXPECT_EQ(set_with_expiry("a", "1", -5), Outcome::kDone);
  EXPECT_EQ(engine_->size(), 0u);
  engine_->set("b", "1");
  EXPECT_EQ(engine_->update("b", [&](const Current&) { return Change::expire(1); }),
            Outcome::kDone);
  EXPECT_EQ(engine_->size(), 0u);
}

TEST_P(EngineTest, active_expiry_removes_what_is_due_within_its_limit) {
  for (int i = 0; i < 100; ++i) set_with_expiry(numbered(i), "x", 10 + i);
  engine_->set("stays", "x");
  EXPECT_EQ(engine_->expire_some(1000), 0u);
  clock_.advance(10 + 49);
  EXPECT_EQ(engine_->expire_some(20), 20u);
  EXPECT_EQ(engine_->expire_some(1000), 30u);
  EXPECT_EQ(engine_->size(), 51u);
  // An expiry that moved does not fire at its old time.
  engine_->update(numbered(50), [](const Current&) { return Change::expire(kNoExpiry); });
  engine_->set(numbered(51), "again");
  clock_.advance(1000);
  EXPECT_EQ(engine_->expire_some(1000), 48u);
  EXPECT_EQ(engine_->size(), 3u);
  EXPECT_EQ(engine_->stats().expired, 98u);
  EXPECT_EQ(engine_->stats().swept, 98u);
  EXPECT_EQ(engine_->stats().volatile_keys, 0u);
}

TEST_P(EngineTest, update_sees_and_changes_a_key_in_one_step) {
  const auto increment = [](const Current& now) {
    static std::string next;
    next = std::to_string(now.exists ? std::stoi(std::string(now.value)) + 1 : 1);
    return Change::put(next, now.expires_at_ms);
  };
  EXPECT_EQ(engine_->update("n", increment), Outcome::kDone);
  EXPECT_EQ(engine_->update("n", increment), Outcome::kDone);
  EXPECT_EQ(get("n"), "2");
  EXPECT_EQ(engine_->update("n", [](const Current&) { return Change::keep(); }), Outcome::kNone);
  EXPECT_EQ(engine_->update("n", [](const Current&) { return Change::erase(); }), Outcome::kDone);
  EXPECT_EQ(engine_->erase("n"), Outcome::kNone);
  EXPECT_EQ(engine_->update("n", [](const Current&) { return Change::expire(0); }),
            Outcome::kNone);
  EXPECT_EQ(engine_->size(), 0u);
}

TEST_P(EngineTest, splice_appends_overwrites_and_pads_with_zeros) {
  const auto splice = [&](size_t offset, std::string_view bytes) {
    return engine_->update("s", [&](const Current&) { return Change::splice(offset, bytes); });
  };
  EXPECT_EQ(splice(2, "ab"), Outcome::kDone);
  EXPECT_EQ(get("s"), std::string("\0\0ab", 4));
  splice(0, "xy");
  splice(4, "cd");
  EXPECT_EQ(get("s"), "xyabcd");
  std::string expected = *get("s");
  for (int i = 0; i < 400; ++i) {
    const std::string part(static_cast<size_t>(i), static_cast<char>('a' + i % 26));
    splice(expected.size(), part);
    expected += part;
  }
  EXPECT_EQ(get("s"), expected);
  splice(expected.size() + 3000, "end");
  expected += std::string(3000, '\0') + "end";
  EXPECT_EQ(get("s"), expected);
}

TEST_P(EngineTest, splice_keeps_the_expiry) {
  set_with_expiry("s", "a", 50);
  engine_->update("s", [](const Current& now) { return Change::splice(now.value.size(), "b"); });
  Info info;
  ASSERT_EQ(engine_->info("s", info), Outcome::kDone);
  EXPECT_EQ(info.expires_at_ms, clock_.now_ms() + 50);
  EXPECT_EQ(info.value_bytes, 2u);
}

TEST_P(EngineTest, a_put_may_take_its_value_from_the_current_one) {
  for (const size_t size : {20u, 5000u, 100000u}) {
    const std::string value = std::string(size, 'x') + "tail";
    engine_->set("k", value);
    engine_->update("k", [](const Current& now) { return Change::put(now.value.substr(3)); });
    EXPECT_EQ(get("k"), value.substr(3));
    const std::string_view both[] = {"k", "renamed"};
    engine_->update_many(both, [](std::span<const Current> now, std::span<Change> change) {
      change[0] = Change::erase();
      change[1] = Change::put(now[0].value, now[0].expires_at_ms);
    });
    EXPECT_EQ(get("k"), std::nullopt);
    EXPECT_EQ(get("renamed"), value.substr(3));
  }
}

TEST_P(EngineTest, set_many_stores_all_or_nothing) {
  const KeyValue first[] = {{"a", "1"}, {"b", "2"}, {"a", "3"}};
  EXPECT_EQ(engine_->set_many(first, true), Outcome::kDone);
  EXPECT_EQ(get("a"), "3");
  EXPECT_EQ(engine_->size(), 2u);
  const KeyValue second[] = {{"c", "4"}, {"b", "5"}};
  EXPECT_EQ(engine_->set_many(second, true), Outcome::kNone);
  EXPECT_EQ(get("c"), std::nullopt);
  EXPECT_EQ(get("b"), "2");
  EXPECT_EQ(engine_->set_many(second, false), Outcome::kDone);
  EXPECT_EQ(get("b"), "5");
  EXPECT_EQ(engine_->size(), 3u);
}

TEST_P(EngineTest, ranges_are_ordered_by_bytes_and_obey_their_ends) {
  for (const char* key : {"b", "a", "c", "ab", "\xff", "B"}) engine_->set(key, key);
  EXPECT_EQ(keys(), (std::vector<std::string>{"B", "a", "ab", "b", "c", "\xff"}));
  EXPECT_EQ(keys({"a", "b", true}), (std::vector<std::string>{"a", "ab", "b"}));
  EXPECT_EQ(keys({"a", "b", false}), (std::vector<std::string>{"a", "ab"}));
  EXPECT_EQ(keys({"aa", std::nullopt}), (std::vector<std::string>{"ab", "b", "c", "\xff"}));
  EXPECT_EQ(keys({"z", "a"}), std::vector<std::string>{});
  EXPECT_EQ(keys({"b", "b", true}), std::vector<std::string>{"b"});
  EXPECT_EQ(items({"a", std::nullopt}, 2).size(), 2u);
  EXPECT_EQ(items({"a", std::nullopt}, 0).size(), 0u);
  uint64_t count = 0;
  EXPECT_EQ(engine_->count({"a", "c", true}, count), Outcome::kDone);
  EXPECT_EQ(count, 4u);
}

TEST_P(EngineTest, iterating_stops_when_the_visitor_says_so) {
  for (int i = 0; i < 200; ++i) engine_->set(numbered(i), "x");
  int seen = 0;
  engine_->keys({}, [&](std::string_view) { return ++seen < 50; });
  EXPECT_EQ(seen, 50);
  seen = 0;
  engine_->range({}, 1000, [&](std::string_view, std::string_view) { return ++seen < 70; });
  EXPECT_EQ(seen, 70);
}

// The checkpoint writes to the engine: with any lock held that would never return.
TEST_P(EngineTest, no_lock_is_held_at_a_checkpoint_and_every_item_has_one) {
  for (int i = 0; i < 300; ++i) set_with_expiry(numbered(i), std::string(600, 'x'), 50);
  int checkpoints = 0;
  bool inside = false;
  at_checkpoint() = [&] {
    if (std::exchange(inside, true)) return;
    ++checkpoints;
    for (int i = 0; i < 8; ++i) engine_->set("zz" + std::to_string(i), "x");
    const KeyValue two[] = {{"zz1", "y"}, {"zz2", "y"}};
    engine_->set_many(two, false);
    engine_->erase("zz3");
    inside = false;
  };
  const auto checkpoints_of = [&](const std::function<void()>& action) {
    checkpoints = 0;
    action();
    return checkpoints;
  };
  EXPECT_GE(checkpoints_of([&] { keys({"key", "l", true}); }), 300);
  EXPECT_GE(checkpoints_of([&] { items({"key", "l", true}); }), 300);
  EXPECT_GE(checkpoints_of([&] { scan_all(20); }), 300);
  uint64_t count = 0;
  EXPECT_GE(checkpoints_of([&] { engine_->count({"key", "l", true}, count); }), 300);
  EXPECT_EQ(count, 300u);
  clock_.advance(60);
  EXPECT_GE(checkpoints_of([&] { engine_->expire_some(100); }), 100);
  EXPECT_GE(checkpoints_of([&] { engine_->flush(); }), 5);
}

TEST_P(EngineTest, scan_returns_what_stays_exactly_once_while_others_come_and_go) {
  for (int i = 0; i < 500; ++i) engine_->set("stay" + numbered(i), "x");
  int turn = 0;
  // Grows and shrinks the tables between and (through checkpoints) within the calls.
  const auto disturb = [&] {
    const bool growing = (turn / 40) % 2 == 0;
    for (int i = 0; i < 60; ++i) {
      const std::string key = "go" + numbered((turn % 40) * 60 + i);
      growing ? engine_->set(key, "y") : engine_->erase(key);
    }
    ++turn;
  };
  bool inside = false;
  at_checkpoint() = [&] {
    if (std::exchange(inside, true)) return;
    if (turn % 3 == 0) disturb();
    inside = false;
  };
  for (const size_t count : {1u, 7u, 100u}) {
    std::multiset<std::string> stayed;
    for (std::string& key : scan_all(count, disturb)) {
      if (key.starts_with("stay")) stayed.insert(std::move(key));
    }
    EXPECT_EQ(stayed.size(), 500u);
    EXPECT_EQ(std::set(stayed.begin(), stayed.end()).size(), 500u);
  }
}

TEST_P(EngineTest, scan_of_a_few_keys_is_one_call_and_takes_any_cursor) {
  for (const char* key : {"a", "b", "c"}) engine_->set(key, "1");
  uint64_t cursor = 0;
  int seen = 0;
  engine_->scan(cursor, 10, [&](std::string_view) { return ++seen > 0; });
  EXPECT_EQ(cursor, 0u);
  EXPECT_EQ(seen, 3);
  for (const uint64_t odd : {uint64_t{1}, uint64_t{12345678901}, ~uint64_t{0}}) {
    cursor = odd;
    EXPECT_EQ(engine_->scan(cursor, 10, [](std::string_view) { return true; }), Outcome::kDone);
    EXPECT_LT(cursor, uint64_t{1} << 48);
  }
}

TEST_P(EngineTest, flush_removes_everything) {
  for (int i = 0; i < 3000; ++i) set_with_expiry(numbered(i), "x", 1000 + i);
  EXPECT_EQ(engine_->size(), 3000u);
  EXPECT_EQ(engine_->flush(), Outcome::kDone);
  EXPECT_EQ(engine_->size(), 0u);
  EXPECT_EQ(keys().size(), 0u);
  EXPECT_EQ(scan_all(100).size(), 0u);
  EXPECT_EQ(engine_->stats().volatile_keys, 0u);
  engine_->set("a", "1");
  EXPECT_EQ(keys(), std::vector<std::string>{"a"});
  clock_.advance(10000);
  EXPECT_EQ(engine_->expire_some(1000), 0u);
}

TEST_P(EngineTest, random_key_finds_every_key_in_time) {
  const auto random = [&](std::set<std::string>& found) {
    return engine_->random_key([&](std::string_view key) { found.emplace(key); });
  };
  std::set<std::string> found;
  EXPECT_EQ(random(found), Outcome::kNone);
  for (int i = 0; i < 5; ++i) engine_->set(numbered(i), "x");
  for (int i = 0; i < 3000 && found.size() < 5; ++i) EXPECT_EQ(random(found), Outcome::kDone);
  EXPECT_EQ(found.size(), 5u);
}

TEST_P(EngineTest, a_put_tells_the_version_of_its_value) {
  uint64_t told = 0;
  for (const std::string_view value : {"first", "second"}) {
    const uint64_t before = told;
    engine_->update("a", [&](const Current&) {
      Change change = Change::put(value);
      change.version = &told;
      return change;
    });
    EXPECT_NE(told, before);
    uint64_t kept = 0;
    engine_->get_versioned("a", [&](std::string_view, uint64_t version) { kept = version; });
    EXPECT_EQ(told, kept);
  }
}

TEST_P(EngineTest, random_key_sees_what_the_same_step_has_written) {
  const auto random = [&] {
    std::string found;
    engine_->random_key([&](std::string_view key) { found = key; });
    return found;
  };
  engine_->set("old", "x");
  EXPECT_EQ(engine_->exclusively([&] {
    engine_->erase("old");
    EXPECT_EQ(random(), "");
    engine_->set("new", "x");
    EXPECT_EQ(random(), "new");
    engine_->erase("new");
    engine_->set("last", "x");
    EXPECT_EQ(random(), "last");
  }), Outcome::kDone);
  EXPECT_EQ(random(), "last");
}

TEST_P(EngineTest, stats_count_hits_misses_and_volatile_keys) {
  engine_->set("a", "1");
  set_with_expiry("b", "1", 1000);
  get("a");
  get("none");
  const EngineStats stats = engine_->stats();
  EXPECT_EQ(stats.hits, 1u);
  EXPECT_EQ(stats.misses, 1u);
  EXPECT_EQ(stats.keys, 2u);
  EXPECT_EQ(stats.volatile_keys, 1u);
  EXPECT_TRUE(stats.keys_exact);
  EXPECT_GT(stats.used_bytes, 0u);
}

uint64_t version_of(Engine& engine, std::string_view key) {
  uint64_t found = 0;
  engine.get_versioned(key, [&](std::string_view, uint64_t version) { found = version; });
  return found;
}

TEST_P(EngineTest, every_write_gives_a_higher_version_be_it_of_the_same_value) {
  const std::string large(20'000, 'x');
  const KeyValue both[] = {{"k", "1"}, {"twin", "1"}};
  const std::function<void()> writes[] = {
      [&] { engine_->set("k", "1"); },
      [&] { engine_->set("k", "1"); },
      [&] { engine_->set("k", large); },
      [&] { engine_->set("k", large); },
      [&] { set_with_expiry("k", "1", 1000); },
      [&] { engine_->update("k", [](const Current&) { return Change::put("2"); }); },
      [&] { engine_->update("k", [](const Current&) { return Change::splice(1, "3"); }); },
      [&] { engine_->update("k", [&](const Current&) { return Change::splice(9000, large); }); },
      [&] { engine_->set_many(both, false); },
      [&] { engine_->erase("k"), engine_->set("k", "1"); },
      [&] { engine_->flush(), engine_->set("k", "1"); },
  };
  uint64_t last = version_of(*engine_, "k");
  EXPECT_EQ(last, 0u);
  for (const auto& write : writes) {
    write();
    EXPECT_GT(version_of(*engine_, "k"), last);
    last = version_of(*engine_, "k");
  }
  EXPECT_EQ(version_of(*engine_, "k"), last);
}

TEST_P(EngineTest, what_is_no_write_of_a_key_leaves_its_version) {
  engine_->set("k", "1");
  const uint64_t version = version_of(*engine_, "k");
  for (int i = 0; i < 1000; ++i) engine_->set(numbered(i), "1");
  engine_->update("k", [&](const Current& now) {
    EXPECT_EQ(now.version, version);
    return Change::expire(clock_.now_ms() + 1000);
  });
  engine_->update("k", [](const Current&) { return Change::expire(kNoExpiry); });
  engine_->update("k", [](const Current&) { return Change::keep(); });
  EXPECT_EQ(version_of(*engine_, "k"), version);
}

TEST_P(EngineTest, a_version_is_kept_with_the_value_and_not_given_again_by_another_run) {
  hash_seed_ = 0;  // as outside of tests
  open();
  engine_->set("k", "1");
  const uint64_t version = version_of(*engine_, "k");
  open();
  EXPECT_EQ(version_of(*engine_, "k"), persistent() ? version : 0);
  for (int i = 0; i < 1000; ++i) {
    engine_->set("k", "2");
    EXPECT_NE(version_of(*engine_, "k"), version);
  }
}

TEST_P(EngineTest, an_update_sees_the_use_before_it_where_the_engine_keeps_it) {
  Info info;
  ASSERT_EQ(engine_->set("a", "1"), Outcome::kDone);
  ASSERT_EQ(engine_->info("a", info), Outcome::kDone);
  ASSERT_EQ(info.idle_ms.has_value(), engine_->keeps_use());
  if (!engine_->keeps_use()) return;
  const auto seen = [&](int64_t after_ms, Change change, Change::Use use) {
    clock_.advance(after_ms);
    std::pair<int64_t, bool> was;
    engine_->update("a", [&](const Current& current) {
      was = {current.idle_ms, current.read};
      change.use = use;
      return change;
    });
    return was;
  };
  using Use = Change::Use;
  using Seen = std::pair<int64_t, bool>;
  EXPECT_EQ(seen(4000, Change::keep(), Use::kNone), Seen(4000, false));
  EXPECT_EQ(seen(4000, Change::keep(), Use::kUse), Seen(8000, false));
  EXPECT_EQ(seen(4000, Change::expire(clock_.now_ms() + 99'000), Use::kRead), Seen(4000, false));
  EXPECT_EQ(seen(2000, Change::put("2"), Use::kRead), Seen(2000, true));
  EXPECT_EQ(seen(0, Change::put("3"), Use::kUse), Seen(0, true));
  EXPECT_EQ(seen(0, Change::erase(), Use::kRead), Seen(0, false));
  EXPECT_EQ(engine_->info("a", info), Outcome::kNone);
}

INSTANTIATE_TEST_SUITE_P(Engines, EngineTest, ::testing::Values("memory", "rocksdb"), engine_name);

}  // namespace
}  // namespace rubato::kv
