// SPDX-License-Identifier: Apache-2.0
//
// The two steps of a change, for one key or many: prepare, which may fail, and commit.
#include <algorithm>
#include <bit>
#include <cstring>

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
    case Change::Kind::kPut: return prepare_put(step);
    case Change::Kind::kSplice: return prepare_splice(step);
    default: return true;
  }
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
    step.growth_bytes = static_cast<int64_t>(step.fresh->cost_bytes());
    return true;
  }
  if (!has_blob) {
    if (fits_inline(entry, value.size()) || fits_blob(entry, value.size())) return true;
    step.blob = Blob::make(value.size());
    if (step.blob == nullptr) return false;
    std::memcpy(step.blob->bytes(), value.data(), value.size());
  }
  const size_t old_bytes = entry->blob != nullptr ? entry->blob->cost_bytes() : 0;
  step.growth_bytes =
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
    step.growth_bytes = static_cast<int64_t>(step.fresh->cost_bytes());
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

// False, with nothing changed, only if a value had to be lengthened in place and the heap is
// exhausted (may_move_blob).
bool MemoryEngine::commit(Step& step, DeferredFree& deferred) {
  switch (step.change.kind) {
    case Change::Kind::kKeep: return true;
    case Change::Kind::kErase: remove_entry(*step.shard, step.entry, deferred); return true;
    case Change::Kind::kExpiry:
      set_expiry(*step.shard, step.entry, step.change.expires_at_ms);
      return true;
    case Change::Kind::kPut: commit_put(step, deferred); return true;
    case Change::Kind::kSplice: return commit_splice(step, deferred);
  }
  return true;
}

void MemoryEngine::commit_put(Step& step, DeferredFree& deferred) {
  Shard& shard = *step.shard;
  Entry* entry = step.entry;
  const std::string_view value = step.change.value;
  if (entry == nullptr) {
    entry = std::exchange(step.fresh, nullptr);
    insert_entry(shard, entry, deferred);
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
  set_expiry(shard, entry, step.change.expires_at_ms);
}

bool MemoryEngine::commit_splice(Step& step, DeferredFree& deferred) {
  Shard& shard = *step.shard;
  Entry* const entry = step.entry;
  if (entry == nullptr) {
    stamp(shard, step.fresh);
    insert_entry(shard, std::exchange(step.fresh, nullptr), deferred);
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
    account(shard, static_cast<int64_t>(grown->cost_bytes()) - static_cast<int64_t>(before));
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
  uint64_t mask = 0;
  for (size_t i = 0; i < keys.size(); ++i) {
    steps[i] = step_for(keys[i]);
    mask |= uint64_t{1} << (steps[i].hash >> (64 - kShardBits));
  }
  DeferredFree deferred;
  lock_shards(mask);
  for (size_t i = 0; i < keys.size(); ++i) {
    Entry* const entry = find_live(*steps[i].shard, steps[i].hash, keys[i], deferred);
    steps[i].entry = entry;
    currents[i] = current_of(entry);
  }
  updater(currents, changes);
  for (size_t i = 0; i < keys.size(); ++i) steps[i].change = changes[i];
  const Outcome outcome = run_all(steps, deferred);
  unlock_shards(mask);
  for (Step& step : steps) abandon(step);
  return outcome;
}

Outcome MemoryEngine::run_all(std::span<Step> steps, DeferredFree& deferred) {
  int64_t growth_bytes = 0;
  bool changes = false;
  for (Step& step : steps) {
    settle(step);
    if (!prepare(step)) return Outcome::kOutOfMemory;
    growth_bytes += step.growth_bytes;
    changes = changes || step.change.kind != Change::Kind::kKeep;
  }
  if (!changes) return Outcome::kNone;
  if (!allows(*steps.front().shard, growth_bytes)) return Outcome::kOutOfMemory;
  // Erase last: a put may take its value from a key that goes.
  for (const bool erasing : {false, true}) {
    for (Step& step : steps) {
      if ((step.change.kind == Change::Kind::kErase) == erasing) commit(step, deferred);
    }
  }
  return Outcome::kDone;
}

}  // namespace rubato::kv
