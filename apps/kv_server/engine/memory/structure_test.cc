// SPDX-License-Identifier: Apache-2.0
//
// The parts of the memory engine on their own: the index, the table, the bound on memory.
#include <algorithm>
#include <set>

#include "base/prng.h"
#include "kv_server/engine/engine_fixture.h"
#include "kv_server/engine/hash.h"
#include "kv_server/engine/memory/memory_engine.h"

namespace rubato::kv {
namespace {

Entry* entry_of(std::string_view key, uint64_t hash = 0) {
  return Entry::make(key, hash == 0 ? hash_key(key, 7) : hash, 0);
}

// Keys of several shapes: counted with a long common prefix, random, prefixes of each other.
std::string shaped_key(uint32_t n) {
  switch (n % 3) {
    case 0: return "user:profile:0000000" + std::to_string(n);
    case 1: return std::string(n % 300, 'p') + std::to_string(n);
    default: {
      const uint64_t word = Prng(n).next();
      return std::string(reinterpret_cast<const char*>(&word), 1 + n % 8) + std::to_string(n);
    }
  }
}

void compare(OrderedIndex& index, const std::map<std::string, Entry*>& model, Prng& prng) {
  ASSERT_EQ(index.check(), model.size());
  const std::string from = shaped_key(prng.below(6000));
  const bool after = prng.below(2) == 0;
  auto expected = after ? model.upper_bound(from) : model.lower_bound(from);
  std::vector<Pinned> found;
  index.collect(from, after, {}, 500, found);
  for (Pinned& entry : found) {
    ASSERT_NE(expected, model.end());
    ASSERT_EQ(&*entry, expected->second);
    ++expected;
  }
  ASSERT_TRUE(found.size() == 500 || expected == model.end());
}

TEST(OrderedIndex, stays_a_sorted_tree_while_it_grows_and_shrinks) {
  SCOPED_TRACE("RUBATO_SEED=" + std::to_string(test_seed()));
  Prng prng(test_seed());
  OrderedIndex index;
  std::map<std::string, Entry*> model;
  for (int step = 0; step < 60000; ++step) {
    // Waves: mostly inserts, then mostly erases.
    const bool inserting = prng.below(10) < ((step / 10000) % 2 == 0 ? 8u : 2u);
    const std::string key = shaped_key(prng.below(6000));
    const auto found = model.find(key);
    if (inserting && found == model.end()) {
      index.insert(model[key] = entry_of(key));
    } else if (!inserting && found != model.end()) {
      index.erase(found->second);
      Entry::drop(found->second);
      model.erase(found);
    }
    if (step % 1000 == 0) compare(index, model, prng);
  }
  for (const auto& [key, entry] : model) {
    index.erase(entry);
    Entry::drop(entry);
  }
  EXPECT_EQ(index.check(), 0u);
}

TEST(OrderedIndex, keys_in_order_leave_full_nodes) {
  OrderedIndex index;
  std::vector<Entry*> entries;
  for (int i = 100000; i < 200000; ++i) entries.push_back(entry_of(std::to_string(i)));
  for (Entry* entry : entries) index.insert(entry);
  EXPECT_EQ(index.check(), entries.size());
  EXPECT_LT(index.cost_bytes(), entries.size() * 18);
  for (Entry* entry : entries) {
    index.erase(entry);
    Entry::drop(entry);
  }
  EXPECT_LT(index.cost_bytes(), 10000u);
}

TEST(Table, finds_every_entry_at_every_step_of_a_resize) {
  Table table;
  std::vector<Entry*> entries;
  Prng prng(3);
  const auto all_found = [&] {
    return std::all_of(entries.begin(), entries.end(),
                       [&](Entry* e) { return table.find(e->hash, e->key()) == e; });
  };
  bool resized = false;
  for (int i = 0; i < 700; ++i) {
    entries.push_back(entry_of(std::to_string(i), prng.next() >> kShardBits));
    table.insert(entries.back());
    resized = resized || table.resizing();
    ASSERT_TRUE(all_found());
  }
  EXPECT_TRUE(resized);
  EXPECT_GE(table.buckets(), 512u);
  while (!entries.empty()) {
    Entry* const entry = entries.back();
    entries.pop_back();
    table.remove(entry);
    ASSERT_EQ(table.find(entry->hash, entry->key()), nullptr);
    Entry::drop(entry);
    ASSERT_TRUE(all_found());
  }
  EXPECT_LE(table.buckets(), 16u);
}

TEST(Table, grows_by_what_it_says_at_most_and_at_one_insert_exactly) {
  Prng prng(5);
  for (size_t inserts : {1u, 2u, 7u, 60u, 500u}) {
    Table table;
    std::vector<Entry*> entries;
    size_t tight = 0;
    while (entries.size() < 3000) {
      const size_t before = table.cost_bytes();
      const size_t bound = before + table.growth_bytes(inserts);
      size_t most = before;
      for (size_t i = 0; i < inserts; ++i) {
        entries.push_back(entry_of(std::to_string(entries.size()), prng.next() >> kShardBits));
        table.insert(entries.back());
        most = std::max(most, table.cost_bytes());
      }
      ASSERT_LE(most, bound) << inserts << " after " << entries.size();
      tight += most > before && most == bound ? 1 : 0;
      if (inserts == 1) { ASSERT_EQ(most, bound); }
    }
    EXPECT_GT(tight, 0u);
    for (Entry* entry : entries) {
      table.remove(entry);
      Entry::drop(entry);
    }
  }
}

TEST(Table, buckets_cover_every_position_once_while_resizing) {
  Table table;
  std::vector<Entry*> entries;
  Prng prng(4);
  const auto walk = [&] {
    std::multiset<uint64_t> seen;
    uint64_t position = 0;
    const uint64_t end = uint64_t{1} << (64 - kShardBits);
    while (position != end) {
      const Table::Bucket bucket = table.bucket_at(position);
      EXPECT_GT(bucket.end, position);
      for (Entry* e = bucket.first; e != nullptr; e = e->next) {
        if (e->hash >= position && e->hash < bucket.end) seen.insert(e->hash);
      }
      position = bucket.end;
    }
    EXPECT_EQ(seen.size(), entries.size());
    EXPECT_EQ(std::set(seen.begin(), seen.end()).size(), entries.size());
  };
  for (int i = 0; i < 300; ++i) {
    entries.push_back(entry_of(std::to_string(i), prng.next() >> kShardBits));
    table.insert(entries.back());
    walk();
  }
  while (!entries.empty()) {
    table.remove(entries.back());
    Entry::drop(entries.back());
    entries.pop_back();
    walk();
  }
}

TEST(MemoryEngine, a_write_that_grows_past_maxmemory_changes_nothing) {
  EngineOptions options;
  options.maxmemory_bytes = 200'000;
  const auto engine = std::move(open_memory_engine(options).value());
  const std::string value(1000, 'v');
  int stored = 0;
  Outcome outcome = Outcome::kDone;
  while (outcome == Outcome::kDone) outcome = engine->set("k" + std::to_string(stored++), value);
  EXPECT_EQ(outcome, Outcome::kOutOfMemory);
  EXPECT_EQ(engine->size(), static_cast<uint64_t>(stored - 1));
  EXPECT_GT(stored, 100);
  // The index grows by a node or none, which is known only when the key is in it.
  constexpr uint64_t kIndexNode = 64;
  EXPECT_LE(engine->stats().used_bytes, 200'000u + kIndexNode);
  // What does not grow still goes.
  EXPECT_EQ(engine->set("k0", std::string(1000, 'w')), Outcome::kDone);
  EXPECT_EQ(engine->set("k0", "small"), Outcome::kDone);
  const KeyValue many[] = {{"k0", "x"}, {"new1", value}, {"new2", value}};
  EXPECT_EQ(engine->set_many(many, false), Outcome::kOutOfMemory);
  std::string k0;
  engine->get("k0", [&](std::string_view v) { k0 = v; });
  EXPECT_EQ(k0, "small");
  EXPECT_EQ(engine->update("k1", [](const Current&) {
    return Change::splice(100'000, "end");
  }), Outcome::kOutOfMemory);
  EXPECT_EQ(engine->erase("k1"), Outcome::kDone);
  EXPECT_EQ(engine->set("k1", value), Outcome::kDone);
  engine->set_maxmemory(0);
  EXPECT_EQ(engine->set("k1", std::string(300'000, 'x')), Outcome::kDone);
}

TEST(MemoryEngine, memory_is_given_back_in_the_books) {
  const auto engine = std::move(open_memory_engine({}).value());
  const uint64_t before = engine->stats().used_bytes;
  for (const bool by_flush : {false, true}) {
    for (int i = 0; i < 5000; ++i) {
      SetOptions options;
      if (i % 2 == 0) options.expires_at_ms = system_clock().now_ms() + 1'000'000;
      engine->set(std::to_string(i), std::string(static_cast<size_t>(i % 2000), 'v'), options);
    }
    EXPECT_GT(engine->stats().used_bytes, 5'000'000u);
    for (int i = 0; !by_flush && i < 5000; ++i) engine->erase(std::to_string(i));
    if (by_flush) engine->flush();
    EXPECT_LE(engine->stats().used_bytes, before + 40'000);
  }
}

TEST(Hash, top_bits_are_even_for_counted_keys) {
  std::vector<int> counts(1 << kShardBits, 0);
  for (int i = 0; i < 64000; ++i) {
    ++counts[hash_key("key:" + std::to_string(i), 99) >> (64 - kShardBits)];
  }
  const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
  EXPECT_GT(*least, 800);
  EXPECT_LT(*most, 1200);
}

}  // namespace
}  // namespace rubato::kv
