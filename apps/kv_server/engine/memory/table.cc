// SPDX-License-Identifier: Apache-2.0
#include "kv_server/engine/memory/table.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace rubato::kv {

namespace {
constexpr uint64_t kMoveAhead = 2 * Table::kMoveChains;
}

Table::Table() : now_(BucketArray::make(kMinBits)) { RUBATO_CHECK(now_); }

BucketArray Table::insert(Entry* entry) {
  RUBATO_DCHECK(entry->next == nullptr && !entry->dead);
  Entry*& head = *chain(entry->hash);
  entry->next = head;
  head = entry;
  ++size_;
  return step();
}

BucketArray Table::remove(Entry* entry) {
  Entry** at = chain(entry->hash);
  while (*at != entry) {
    RUBATO_DCHECK(*at != nullptr);
    at = &(*at)->next;
  }
  RUBATO_DCHECK(size_ > 0);
  *at = entry->next;
  entry->next = nullptr;
  --size_;
  return step();
}

// An array that is replaced, by one of twice its size, stays until its chains have been moved; no
// other one comes before. Each insert makes one array at most.
size_t Table::growth_bytes(size_t inserts) const {
  if (inserts == 0 || (old_ && inserts == 1) || size_ + inserts <= now_.size()) return 0;
  const auto needed = static_cast<size_t>(std::bit_width(size_ + inserts - 1));
  const size_t bits = std::min({needed, now_.bits() + inserts, size_t{kMaxBits}});
  const size_t most = (size_t{3} << bits) / 2 * sizeof(Entry*);
  return most - std::min(most, cost_bytes());
}

BucketArray Table::step() {
  if (!old_) {
    if (grows(size_)) {
      resize(now_.bits() + 1);
    } else if (now_.bits() > kMinBits && size_ < now_.size() / kShrinkFactor) {
      resize(now_.bits() - 1);
    }
    return {};
  }
  uint32_t chains = 0;
  for (uint32_t i = 0; i < kMoveBuckets && moved_ < old_.size() && chains < kMoveChains; ++i) {
    if (move_bucket()) ++chains;
  }
  if (moved_ < old_.size()) return {};
  moved_ = 0;
  return std::move(old_);
}

void Table::resize(uint32_t bits) {
  BucketArray fresh = BucketArray::make(bits);
  if (!fresh) return;  // the chains get longer instead; tried again at the next insert
  RUBATO_DCHECK(!old_);
  old_ = std::move(now_);
  now_ = std::move(fresh);
  moved_ = 0;
}

// False = it was empty.
bool Table::move_bucket() {
  // Its entries are cold: fetch those of the buckets that come later.
  if (moved_ + kMoveAhead < old_.size()) __builtin_prefetch(old_[moved_ + kMoveAhead], 1);
  Entry* entry = std::exchange(old_[moved_], nullptr);
  ++moved_;
  if (entry == nullptr) return false;
  while (entry != nullptr) {
    Entry* const next = entry->next;
    Entry*& head = now_[index(entry->hash, now_.bits())];
    entry->next = head;
    head = entry;
    entry = next;
  }
  return true;
}

Table::Bucket Table::bucket_at(uint64_t position) const {
  const uint64_t shard_base = position >> (64 - kShardBits) << (64 - kShardBits);
  const auto start_of = [&](uint64_t bucket, uint32_t bits) {
    // Wraps to the next shard's base, or to 0, at the end: which is what `end` means.
    return shard_base + (bucket << (64 - bits - kShardBits));
  };
  if (in_old(position)) {
    const uint64_t i = index(position, old_.bits());
    return {old_[i], start_of(i + 1, old_.bits())};
  }
  const uint64_t i = index(position, now_.bits());
  uint64_t end = start_of(i + 1, now_.bits());
  // While shrinking, the rest of this bucket may still be in the old array.
  if (old_ && moved_ < old_.size()) {
    const uint64_t unmoved = start_of(moved_, old_.bits());
    if (unmoved > position) end = std::min(end - 1, unmoved - 1) + 1;
  }
  return {now_[i], end};
}

std::pair<BucketArray, BucketArray> Table::detach() {
  std::pair<BucketArray, BucketArray> all{std::move(now_), std::move(old_)};
  now_ = BucketArray::make(kMinBits);
  RUBATO_CHECK(now_);
  old_ = BucketArray();
  moved_ = 0;
  size_ = 0;
  return all;
}

}  // namespace rubato::kv
