// SPDX-License-Identifier: Apache-2.0
//
// Commands on one key, and their parts.
#include "kv_server/engine/memory/memory_engine.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <random>

#include "base/check.h"
#include "base/prng.h"
#include "kv_server/engine/hash.h"

namespace rubato::kv {

namespace {

constexpr int64_t kReportBytes = int64_t{8} << 10;   // unreported bytes of a shard, at most

uint64_t random_word() {
  std::random_device device;
  return (uint64_t{device()} << 32) | device();
}

}  // namespace

MemoryEngine::MemoryEngine(const EngineOptions& options)
    : clock_(options.clock != nullptr ? *options.clock : system_clock()),
      checkpoint_(options.checkpoint),
      seed_(options.hash_seed != 0 ? options.hash_seed : random_word()),
      account_(options.account != nullptr ? *options.account : own_account_),
      eviction_(options.eviction),
      random_(seed_),
      shards_(std::make_unique<Shard[]>(kShards)) {
  account_.set_limit(options.maxmemory_bytes);
  // Clients see versions, so they are not drawn from a secret seed.
  Prng given(options.hash_seed);
  for (uint32_t i = 0; i < kShards; ++i) {
    const uint64_t first = options.hash_seed != 0 ? given.next() : random_word();
    shards_[i].writes = first >> (64 - Entry::kVersionBits + 1);
    charge(shards_[i], static_cast<int64_t>(shards_[i].table.cost_bytes()));
  }
}

MemoryEngine::~MemoryEngine() {
  for (uint32_t i = 0; i < kShards; ++i) {
    auto [now, old] = shards_[i].table.detach();
    for (BucketArray* array : {&now, &old}) {
      for (uint64_t b = 0; *array && b < array->size(); ++b) {
        for (Entry* entry = (*array)[b]; entry != nullptr;) {
          Entry::drop(std::exchange(entry, entry->next));
        }
      }
    }
  }
}

MemoryEngine::Step MemoryEngine::step_for(std::string_view key) {
  Step step;
  step.key = key;
  step.hash = hash_key(key, seed_);
  step.shard = &shard_of(step.hash);
  return step;
}

template <class Sink>
Outcome MemoryEngine::read(std::string_view key, Sink&& sink) {
  const uint64_t hash = hash_key(key, seed_);
  Shard& shard = shard_of(hash);
  DeferredFree deferred;
  Blob* pinned = nullptr;
  size_t size_bytes = 0;
  uint64_t version = 0;
  {
    const ShardLocked guard(*this, shard);
    Entry* const entry = find_live(shard, hash, key, deferred, true);
    if (entry == nullptr) {
      ++shard.misses;
      return Outcome::kNone;
    }
    ++shard.hits;
    if (entry->value_bytes <= kPinBytes) {
      sink(entry->value(), entry->version);
      return Outcome::kDone;
    }
    pinned = entry->blob;
    pinned->refs.fetch_add(1, std::memory_order_relaxed);
    size_bytes = entry->value_bytes;
    version = entry->version;
  }
  sink(std::string_view(pinned->bytes(), size_bytes), version);
  Blob::drop(pinned);
  return Outcome::kDone;
}

Outcome MemoryEngine::get(std::string_view key, ValueSink sink) {
  return read(key, [&](std::string_view value, uint64_t) { sink(value); });
}

Outcome MemoryEngine::get_versioned(std::string_view key, VersionedSink sink) {
  return read(key, sink);
}

Current MemoryEngine::current_of(const Step& step) const {
  Current current;
  if (Entry* const entry = step.entry) {
    current = {true, entry->value(), entry->expiry(), entry->version, 0, idle_ms(*entry),
               entry->is_read()};
  } else {
    current.creations = step.shard->creations[step.hash % kCreationCounts];
  }
  return current;
}

Outcome MemoryEngine::info(std::string_view key, Info& out) {
  const uint64_t hash = hash_key(key, seed_);
  Shard& shard = shard_of(hash);
  DeferredFree deferred;
  const ShardLocked guard(*this, shard);
  Entry* const entry = find_unexpired(shard, hash, key, deferred);
  if (entry == nullptr) {
    ++shard.misses;
    return Outcome::kNone;
  }
  ++shard.hits;
  out = {entry->value_bytes, entry->expiry(), idle_ms(*entry)};
  return Outcome::kDone;
}

Outcome MemoryEngine::set(std::string_view key, std::string_view value,
                          const SetOptions& options) {
  return with_room([&](Step& step) {
    step = step_for(key);
    if (value.size() > Entry::kInlineMax) {
      step.blob = Blob::make(value.size());
      if (step.blob == nullptr) return Outcome::kOutOfMemory;
      std::memcpy(step.blob->bytes(), value.data(), value.size());
    }
    DeferredFree deferred;
    const ShardLocked guard(*this, *step.shard);
    return set_locked(step, value, options, deferred);
  });
}

Outcome MemoryEngine::set_locked(Step& step, std::string_view value, const SetOptions& options,
                                 DeferredFree& deferred) {
  using When = SetOptions::When;
  Entry* const entry = step.entry = find_live(*step.shard, step.hash, step.key, deferred);
  if (options.old) (*options.old)(current_of(step));
  const bool holds = options.when == When::kAlways ||
                     (entry != nullptr) == (options.when == When::kIfPresent);
  if (!holds) return Outcome::kNone;
  const int64_t kept = entry != nullptr ? entry->expiry() : kNoExpiry;
  const int64_t expires_at = options.keep_expiry ? kept : options.expires_at_ms;
  if (entry != nullptr && entry->blob == nullptr && value.size() <= entry->room_bytes &&
      (expires_at | kept) == kNoExpiry) {
    if (!value.empty()) std::memcpy(entry->value_data(), value.data(), value.size());
    entry->value_bytes = static_cast<uint32_t>(value.size());
    stamp(*step.shard, entry);
    return Outcome::kDone;
  }
  step.change = Change::put(value, expires_at);
  const Outcome outcome = run(step, deferred);
  // The expiry has passed already, and there was no key to erase: the SET is done, too.
  return outcome == Outcome::kNone ? Outcome::kDone : outcome;
}

Outcome MemoryEngine::erase(std::string_view key) {
  return update(key, [](const Current&) { return Change::erase(); });
}

Outcome MemoryEngine::update(std::string_view key, Updater updater) {
  return with_room([&](Step& step) {
    step = step_for(key);
    DeferredFree deferred;
    const ShardLocked guard(*this, *step.shard);
    step.entry = find_unexpired(*step.shard, step.hash, key, deferred);
    step.change = updater(current_of(step));
    step.may_move_blob = true;
    if (step.entry != nullptr && step.change.use != Change::Use::kNone) touch(step.entry);
    const Outcome outcome = run(step, deferred);
    const bool reads = step.change.use == Change::Use::kRead;
    if (reads && step.entry != nullptr && !step.entry->dead) step.entry->set_read(true);
    return outcome;
  });
}

// Makes an attempt of one step again as long as room can be made for it.
template <class F>
Outcome MemoryEngine::with_room(F&& attempt) {
  for (;;) {
    Step step;
    const Abandoned abandoned(*this, {&step, 1});
    const Outcome outcome = attempt(step);
    if (!step.refused || !make_room(step.growth_bytes)) return outcome;
  }
}

Entry* MemoryEngine::find_live(Shard& shard, uint64_t hash, std::string_view key,
                               DeferredFree& deferred, bool reads) {
  Entry* const entry = find_unexpired(shard, hash, key, deferred);
  if (entry != nullptr) touch(entry, reads);
  return entry;
}

Entry* MemoryEngine::find_unexpired(Shard& shard, uint64_t hash, std::string_view key,
                                    DeferredFree& deferred) {
  Entry* const entry = shard.table.find(hash, key);
  if (entry == nullptr || !is_past(entry->expiry())) return entry;
  remove_entry(shard, entry, deferred);
  ++shard.expired;
  return nullptr;
}

// False, with nothing changed, if the heap is exhausted.
bool MemoryEngine::insert_entry(Shard& shard, Entry* entry, DeferredFree& deferred) {
  const size_t table_bytes = shard.table.cost_bytes();
  touch(entry);
  if (!index_.insert(entry)) return false;
  deferred.add(shard.table.insert(entry));
  charge(shard, static_cast<int64_t>(entry->cost_bytes() + shard.table.cost_bytes()) -
                     static_cast<int64_t>(table_bytes));
  shard.keys.store(shard.table.size(), std::memory_order_relaxed);
  ++shard.creations[entry->hash % kCreationCounts];
  return true;
}

void MemoryEngine::remove_entry(Shard& shard, Entry* entry, DeferredFree& deferred) {
  set_expiry(shard, entry, kNoExpiry);
  index_.erase(entry);
  const size_t table_bytes = shard.table.cost_bytes() + entry->cost_bytes();
  deferred.add(shard.table.remove(entry));
  charge(shard,
          static_cast<int64_t>(shard.table.cost_bytes()) - static_cast<int64_t>(table_bytes));
  shard.keys.store(shard.table.size(), std::memory_order_relaxed);
  entry->dead = true;
  if (entry->blob != nullptr) deferred.add(std::exchange(entry->blob, nullptr));
  entry->value_bytes = 0;
  deferred.add(entry);
}

void MemoryEngine::set_expiry(Shard& shard, Entry* entry, int64_t expires_at_ms) {
  if (entry->expiry() == expires_at_ms) return;
  const size_t before = shard.heap.size();
  entry->expires_at.store(expires_at_ms, std::memory_order_relaxed);
  shard.heap.update(entry);
  if (shard.heap.size() != before) {
    charge(shard, shard.heap.size() > before ? kHeapItemBytes : -kHeapItemBytes);
  }
}

void MemoryEngine::set_blob(Shard& shard, Entry* entry, Blob* blob, DeferredFree& deferred) {
  int64_t growth = blob != nullptr ? static_cast<int64_t>(blob->cost_bytes()) : 0;
  if (entry->blob != nullptr) {
    growth -= static_cast<int64_t>(entry->blob->cost_bytes());
    deferred.add(entry->blob);
  }
  entry->blob = blob;
  charge(shard, growth);
}

void MemoryEngine::charge(Shard& shard, int64_t bytes) {
  shard.bytes += bytes;
  const int64_t allowed = std::clamp(bytes, int64_t{0}, shard.allowed);
  shard.allowed -= allowed;
  report(shard, bytes - allowed);
}

void MemoryEngine::report(Shard& shard, int64_t bytes) {
  shard.unreported += bytes;
  // With a bound every byte is reported, so that it holds; without, most need not be.
  const int64_t kept = account_.limit() == 0 ? kReportBytes - 1 : 0;
  if (std::abs(shard.unreported) <= kept) return;
  account_.add_data(std::exchange(shard.unreported, 0));
}

MemoryEngine::Allowance::Allowance(MemoryEngine& engine, std::span<const Step> steps)
    : engine_(engine),
      steps_(engine.account_.limit() == 0 || growth_of(steps) == 0 ? std::span<const Step>()
                                                                   : steps) {
  if (steps_.empty()) return;
  for (const Step& step : steps_) {
    const int64_t bytes = std::max(step.growth_bytes, int64_t{0});
    step.shard->allowed += bytes;
    engine_.report(*step.shard, bytes);
  }
  // Of the next key that is new to the index.
  const auto is_new = [](const Step& step) { return step.fresh != nullptr; };
  if (std::any_of(steps_.begin(), steps_.end(), is_new)) {
    index_bytes_ = static_cast<int64_t>(engine_.index_.most_growth_bytes());
  }
  engine_.account_.add_data(index_bytes_);
  const MemoryAccount& account = engine_.account_;
  const bool only_expires =
      steps_.size() == 1 && steps_.front().change.kind == Change::Kind::kExpiry;
  granted_ = only_expires ? account.data() <= account.room_for_expiries() : holds();
}

bool MemoryEngine::Allowance::holds() const {
  return steps_.empty() || engine_.account_.data() <= engine_.account_.room_for_data();
}

MemoryEngine::Allowance::~Allowance() {
  if (steps_.empty()) return;
  engine_.account_.add_data(-index_bytes_);
  for (const Step& step : steps_) {
    engine_.report(*step.shard, -std::exchange(step.shard->allowed, 0));
  }
}

Outcome MemoryEngine::run(Step& step, DeferredFree& deferred) {
  settle(step);
  if (step.change.kind == Change::Kind::kKeep) return Outcome::kNone;
  if (step.change.expires_at_ms != kNoExpiry) step.shard->heap.reserve(1);
  if (!prepare(step)) return Outcome::kOutOfMemory;
  const Allowance allowance(*this, {&step, 1});
  step.refused = !allowance.granted();
  return !step.refused && commit(step, deferred) ? Outcome::kDone : Outcome::kOutOfMemory;
}

uint64_t MemoryEngine::size() const {
  uint64_t keys = 0;
  for (uint32_t i = 0; i < kShards; ++i) keys += shards_[i].keys.load(std::memory_order_relaxed);
  return keys;
}

EngineStats MemoryEngine::stats() const {
  EngineStats sum;
  int64_t bytes = static_cast<int64_t>(index_.cost_bytes());
  for (uint32_t i = 0; i < kShards; ++i) {
    const Shard& shard = shards_[i];
    const ShardLocked guard(*this, shard);
    sum.keys += shard.table.size();
    sum.volatile_keys += shard.heap.size();
    sum.hits += shard.hits;
    sum.misses += shard.misses;
    sum.expired += shard.expired;
    sum.swept += shard.swept;
    bytes += shard.bytes;
  }
  sum.used_bytes = static_cast<uint64_t>(bytes);
  sum.maxmemory_bytes = account_.limit();
  sum.evicted = evicted_.load(std::memory_order_relaxed);
  return sum;
}

void MemoryEngine::set_maxmemory(uint64_t bytes) {
  account_.set_limit(bytes);
  for (uint32_t i = 0; i < kShards; ++i) {
    const ShardLocked guard(*this, shards_[i]);
    charge(shards_[i], 0);
  }
}

void MemoryEngine::check() const {
  uint64_t keys = 0;
  for (uint32_t i = 0; i < kShards; ++i) {
    RUBATO_CHECK(shards_[i].keys.load(std::memory_order_relaxed) == shards_[i].table.size());
    keys += shards_[i].table.size();
  }
  RUBATO_CHECK(index_.check() == keys);
}

Result<std::unique_ptr<Engine>> open_memory_engine(const EngineOptions& options) {
  return std::unique_ptr<Engine>(std::make_unique<MemoryEngine>(options));
}

}  // namespace rubato::kv
