// SPDX-License-Identifier: Apache-2.0
//
// The two steps of a change, for one key or many: prepare, which may fail, and commit.
#include <algorithm>
#include <bit>
#include <cstring>

#include "kv_server/engine/hash.h"
#include "kv_server/engine/memory/memory_engine.h"

namespace rubato::kv {

namespace {

constexpr size_t kGrowthMax = size_t{1} << 20;  // spare room of a value that is appended to

size_t lowest(uint64_t mask) { return static_cast<size_t>(std::countr_zero(mask)); }

size_t roomy(size_t size_bytes) { return size_bytes + std::min(size_bytes, kGrowthMax); }

char* inline_data(Entry* entry) {
  return const_cast<char*>(entry->key().data()) + entry->key_bytes;
}

bool fits_inline(const Entry* entry, size_t size) { return size <= entry->room_bytes; }

// Whether the blob may take a value of this size, without wasting most of itself on it.
bool fits_blob(const Entry* entry, size_t size) {
  return entry->blob != nullptr && size <= entry->blob->capacity &&
         size >= entry->blob->capacity / 2 && entry->blob->only_owner();
}

void write_splice(char* value, size_t old_bytes, const Change& change) {
  if (change.offset > old_bytes) std::memset(value + old_bytes, 0, change.offset - old_bytes);
  if (change.value.empty()) return;
  std::memcpy(value + change.offset, change.value.data(), change.value.size());
}

size_t spliced_size(const Entry* entry, const Change& change) {
  const size_t old_bytes = entry != nullptr ? entry->value_bytes : 0;
  return std::max(old_bytes, change.offset + change.value.size());
}

}  // namespace

void MemoryEngine::settle(Step& step) const {
  using Kind = Change::Kind;
  Kind& kind = step.change.kind;
  if (kind == Kind::kExpiry && step.entry == nullptr) kind = Kind::kKeep;
  const bool timed = kind == Kind::kPut || kind == Kind::kExpiry;
  if (timed && is_past(step.change.expires_at_ms)) {
    kind = Kind::kErase;
    if (step.entry == nullptr) step.change = Change::keep();
  } else if (kind == Kind::kErase && step.entry == nullptr) {
    kind = Kind::kKeep;
  }
}

bool MemoryEngine::prepare(Step& step) const {
  switch (step.change.kind) {
    case Change::Kind::kPut:
      step.growth_bytes = growth_of_heap(step);
      return prepare_put(step);
    case Change::Kind::kExpiry: step.growth_bytes = growth_of_heap(step); return true;
    case Change::Kind::kSplice: return prepare_splice(step);
    default: return true;
  }
}

int64_t MemoryEngine::growth_of_heap(const Step& step) {
  const bool is_in = step.entry != nullptr && step.entry->expiry() != kNoExpiry;
  return step.change.expires_at_ms != kNoExpiry && !is_in ? kHeapItemBytes : 0;
}

// Of its new key and the table of the shard.
int64_t MemoryEngine::growth_by(const Step& step) {
  const Table& table = step.shard->table;
  const size_t growth =
      table.growth_bytes(step.new_before + 1) - table.growth_bytes(step.new_before);
  return static_cast<int64_t>(step.fresh->cost_bytes() + growth);
}

// What shrinks may come last, and makes no room for what grows.
int64_t MemoryEngine::growth_of(std::span<const Step> steps) {
  int64_t growth_bytes = 0;
  for (const Step& step : steps) growth_bytes += std::max(step.growth_bytes, int64_t{0});
  return growth_bytes;
}

bool MemoryEngine::prepare_put(Step& step) const {
  const std::string_view value = step.change.value;
  Entry* const entry = step.entry;
  const bool has_blob = step.blob != nullptr;
  if (entry == nullptr) {
    step.fresh = Entry::make(step.key, step.hash, has_blob ? 0 : value.size());
    if (step.fresh == nullptr) return false;
    if (has_blob) {
      step.fresh->blob = std::exchange(step.blob, nullptr);
      step.fresh->value_bytes = static_cast<uint32_t>(value.size());
    } else if (!value.empty()) {
      std::memcpy(step.fresh->value_data(), value.data(), value.size());
    }
    step.growth_bytes += growth_by(step);
    return true;
  }
  if (!has_blob) {
    if (fits_inline(entry, value.size()) || fits_blob(entry, value.size())) return true;
    step.blob = Blob::make(value.size());
    if (step.blob == nullptr) return false;
    std::memcpy(step.blob->bytes(), value.data(), value.size());
  }
  const size_t old_bytes = entry->blob != nullptr ? entry->blob->cost_bytes() : 0;
  step.growth_bytes +=
      static_cast<int64_t>(step.blob->cost_bytes()) - static_cast<int64_t>(old_bytes);
  return true;
}

bool MemoryEngine::prepare_splice(Step& step) const {
  Entry* const entry = step.entry;
  const size_t size = spliced_size(entry, step.change);
  if (entry == nullptr) {
    step.fresh = Entry::make(step.key, step.hash, size);
    if (step.fresh == nullptr) return false;
    write_splice(step.fresh->value_data(), 0, step.change);
    step.growth_bytes += growth_by(step);
    return true;
  }
  if (entry->blob == nullptr ? fits_inline(entry, size)
                             : entry->blob->only_owner() && size <= entry->blob->capacity) {
    return true;
  }
  const size_t capacity = std::min(roomy(size), std::max(size, kMaxValueBytes));
  if (entry->blob != nullptr && entry->blob->only_owner() && step.may_move_blob) {
    step.growth_bytes = static_cast<int64_t>(capacity - entry->blob->capacity);
    return true;
  }
  step.blob = Blob::make(capacity);
  if (step.blob == nullptr) return false;
  const std::string_view old = entry->value();
  std::memcpy(step.blob->bytes(), old.data(), old.size());
  step.growth_bytes = static_cast<int64_t>(step.blob->cost_bytes()) -
                      static_cast<int64_t>(entry->blob ? entry->blob->cost_bytes() : 0);
  return true;
}

// Frees the memory that prepare took and commit did not use. Needs no lock.
void MemoryEngine::abandon(Step& step) const {
  if (step.fresh != nullptr) Entry::drop(std::exchange(step.fresh, nullptr));
  if (step.blob != nullptr) Blob::drop(std::exchange(step.blob, nullptr));
}

// False, with nothing changed, if the heap is exhausted: for a new key, or for a value that is to
// be lengthened in place (may_move_blob).
bool MemoryEngine::commit(Step& step, DeferredFree& deferred) {
  switch (step.change.kind) {
    case Change::Kind::kKeep: return true;
    case Change::Kind::kErase: remove_entry(*step.shard, step.entry, deferred); return true;
    case Change::Kind::kExpiry:
      set_expiry(*step.shard, step.entry, step.change.expires_at_ms);
      return true;
    case Change::Kind::kPut: return commit_put(step, deferred);
    case Change::Kind::kSplice: return commit_splice(step, deferred);
  }
  return true;
}

bool MemoryEngine::commit_put(Step& step, DeferredFree& deferred) {
  Shard& shard = *step.shard;
  Entry* entry = step.entry;
  const std::string_view value = step.change.value;
  if (entry == nullptr) {
    if (!insert_entry(shard, step.fresh, deferred)) return false;
    entry = std::exchange(step.fresh, nullptr);
  } else {
    if (step.blob != nullptr) {
      set_blob(shard, entry, std::exchange(step.blob, nullptr), deferred);
    } else if (fits_inline(entry, value.size())) {
      // The value may lie in the bytes overwritten here, or in the blob, whose freeing is deferred.
      std::memmove(inline_data(entry), value.data(), value.size());
      if (entry->blob != nullptr) set_blob(shard, entry, nullptr, deferred);
    } else {
      std::memmove(entry->blob->bytes(), value.data(), value.size());
    }
    entry->value_bytes = static_cast<uint32_t>(value.size());
  }
  stamp(shard, entry);
  if (step.change.version != nullptr) *step.change.version = entry->version;
  set_expiry(shard, entry, step.change.expires_at_ms);
  return true;
}

bool MemoryEngine::commit_splice(Step& step, DeferredFree& deferred) {
  Shard& shard = *step.shard;
  Entry* const entry = step.entry;
  if (entry == nullptr) {
    stamp(shard, step.fresh);
    if (!insert_entry(shard, step.fresh, deferred)) return false;
    step.fresh = nullptr;
    return true;
  }
  const size_t size = spliced_size(entry, step.change);
  if (step.blob != nullptr) {
    set_blob(shard, entry, std::exchange(step.blob, nullptr), deferred);
  } else if (entry->blob != nullptr && size > entry->blob->capacity) {
    const size_t before = entry->blob->cost_bytes();
    const size_t capacity = std::min(roomy(size), std::max(size, kMaxValueBytes));
    Blob* const grown = Blob::grow(entry->blob, capacity);
    if (grown == nullptr) return false;
    entry->blob = grown;
    charge(shard, static_cast<int64_t>(grown->cost_bytes()) - static_cast<int64_t>(before));
  }
  write_splice(entry->value_data(), entry->value_bytes, step.change);
  stamp(shard, entry);
  entry->value_bytes = static_cast<uint32_t>(size);
  return true;
}

void MemoryEngine::lock_shards(uint64_t mask) {
  for (; mask != 0; mask &= mask - 1) shards_[lowest(mask)].lock.lock();
}

void MemoryEngine::unlock_shards(uint64_t mask) {
  for (; mask != 0; mask &= mask - 1) shards_[lowest(mask)].lock.unlock();
}

Outcome MemoryEngine::update_many(std::span<const std::string_view> keys, ManyUpdater updater) {
  std::vector<Step> steps(keys.size());
  std::vector<Current> currents(keys.size());
  std::vector<Change> changes(keys.size());
  Outcome outcome;
  bool refused = false;
  do {
    std::fill(changes.begin(), changes.end(), Change::keep());
    const Abandoned abandoned(*this, steps);
    outcome = update_many_once(keys, updater, {steps, currents, changes});
    refused = !steps.empty() && steps.front().refused;
  } while (refused && make_room(growth_of(steps)));
  return outcome;
}

Outcome MemoryEngine::update_many_once(std::span<const std::string_view> keys, ManyUpdater updater,
                                       const Batch& batch) {
  uint64_t mask = 0;
  for (size_t i = 0; i < keys.size(); ++i) {
    batch.steps[i] = step_for(keys[i]);
    mask |= uint64_t{1} << (batch.steps[i].hash >> (64 - kShardBits));
  }
  DeferredFree deferred;
  const ShardsLocked locked(*this, mask);
  for (size_t i = 0; i < keys.size(); ++i) {
    Step& step = batch.steps[i];
    step.entry = find_unexpired(*step.shard, step.hash, keys[i], deferred);
    batch.currents[i] = current_of(step);
    if (step.entry != nullptr) touch(step.entry);
  }
  updater(batch.currents, batch.changes);
  for (size_t i = 0; i < keys.size(); ++i) batch.steps[i].change = batch.changes[i];
  return run_all(batch.steps, deferred);
}

Outcome MemoryEngine::run_all(std::span<Step> steps, DeferredFree& deferred) {
  std::array<size_t, kShards> added{};
  bool changes = false;
  for (Step& step : steps) {
    settle(step);
    size_t& added_to_shard = added[static_cast<size_t>(step.shard - shards_.get())];
    step.new_before = added_to_shard;
    if (!prepare(step)) return Outcome::kOutOfMemory;
    added_to_shard += step.fresh != nullptr ? 1 : 0;
    changes = changes || step.change.kind != Change::Kind::kKeep;
  }
  if (!changes) return Outcome::kNone;
  const Allowance allowance(*this, steps);
  steps.front().refused = !allowance.granted();
  if (steps.front().refused) return Outcome::kOutOfMemory;
  for (Step& step : steps) {
    if (step.change.expires_at_ms != kNoExpiry) step.shard->heap.reserve(steps.size());
  }
  if (!insert_all(steps, allowance, deferred)) return Outcome::kOutOfMemory;
  // Erase last: a put may take its value from a key that goes.
  for (const bool erasing : {false, true}) {
    for (Step& step : steps) {
      if (step.inserted) continue;
      if ((step.change.kind == Change::Kind::kErase) == erasing) commit(step, deferred);
    }
  }
  return Outcome::kDone;
}

// The new keys first, as nothing else can fail. False, with nothing changed: one could not be had,
// or the nodes that the index has made for them do not fit.
bool MemoryEngine::insert_all(std::span<Step> steps, const Allowance& allowance,
                              DeferredFree& deferred) {
  const auto index_before = static_cast<int64_t>(index_.cost_bytes());
  for (Step& step : steps) {
    if (step.fresh == nullptr) continue;
    Entry* const fresh = step.fresh;
    step.inserted = commit(step, deferred);
    if (step.inserted) {
      step.entry = fresh;
      if (allowance.holds()) continue;
      Step& first = steps.front();
      first.refused = true;
      first.growth_bytes = std::max(first.growth_bytes, int64_t{0}) +
                           static_cast<int64_t>(index_.cost_bytes()) - index_before;
    }
    for (Step& other : steps) {
      if (other.inserted) remove_entry(*other.shard, other.entry, deferred);
    }
    return false;
  }
  return true;
}

thread_local const MemoryEngine* MemoryEngine::t_exclusive_ = nullptr;

Outcome MemoryEngine::exclusively(FunctionRef<void()> body) {
  struct Owner {
    explicit Owner(const MemoryEngine* engine) { t_exclusive_ = engine; }
    ~Owner() { t_exclusive_ = nullptr; }
  };
  const ShardsLocked all(*this, ~uint64_t{0});
  const Owner owner(this);
  body();
  return Outcome::kDone;
}

// Large values are copied by the sink, without the locks.
Outcome MemoryEngine::get_many(std::span<const std::string_view> keys, ManySink sink) {
  struct Got {
    Blob* blob = nullptr;
    size_t at = 0;  // in `small`, without a blob
    size_t bytes = 0;
    bool exists = false;
  };
  struct Values {
    std::vector<Got> got;
    std::string small;
    ~Values() {
      for (const Got& one : got) {
        if (one.blob != nullptr) Blob::drop(one.blob);
      }
    }
  };
  Values values;
  values.got.resize(keys.size());
  DeferredFree deferred;
  uint64_t mask = 0;
  for (const std::string_view key : keys) {
    mask |= uint64_t{1} << (hash_key(key, seed_) >> (64 - kShardBits));
  }
  {
    const ShardsLocked locked(*this, mask);
    for (size_t i = 0; i < keys.size(); ++i) {
      const uint64_t hash = hash_key(keys[i], seed_);
      Shard& shard = shard_of(hash);
      Entry* const entry = find_live(shard, hash, keys[i], deferred, true);
      ++(entry != nullptr ? shard.hits : shard.misses);
      if (entry == nullptr) continue;
      Got& got = values.got[i];
      got = {nullptr, values.small.size(), entry->value_bytes, true};
      if (entry->value_bytes <= kPinBytes) {
        values.small.append(entry->value());
      } else {
        got.blob = entry->blob;
        got.blob->refs.fetch_add(1, std::memory_order_relaxed);
      }
    }
  }
  for (size_t i = 0; i < keys.size(); ++i) {
    const Got& got = values.got[i];
    if (!got.exists) {
      sink(i, std::nullopt);
    } else {
      sink(i, got.blob != nullptr ? std::string_view(got.blob->bytes(), got.bytes)
                                  : std::string_view(values.small).substr(got.at, got.bytes));
    }
  }
  return Outcome::kDone;
}

}  // namespace rubato::kv
