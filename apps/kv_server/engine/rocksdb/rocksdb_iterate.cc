// SPDX-License-Identifier: Apache-2.0
//
// The iterating methods. An iterator sees one snapshot and may live across checkpoints.
#include <rocksdb/convenience.h>
#include <rocksdb/db.h>
#include <rocksdb/write_batch.h>

#include <algorithm>

#include "kv_server/engine/hash.h"
#include "kv_server/engine/rocksdb/encoding.h"
#include "kv_server/engine/rocksdb/rocksdb_engine.h"

namespace rubato::kv {

namespace {

constexpr uint32_t kCursorShift = 16;
constexpr uint64_t kCursorEnd = uint64_t{1} << (64 - kCursorShift);
constexpr uint32_t kExpireAtOnce = 64;  // keys removed by one write
constexpr int kRandomTries = 64;
// Longer than any writer takes from looking at the clock to its write.
constexpr int64_t kExpiryMarginMs = 60'000;

rocksdb::Slice slice(std::string_view bytes) { return {bytes.data(), bytes.size()}; }
std::string_view view(const rocksdb::Slice& bytes) { return {bytes.data(), bytes.size()}; }

}  // namespace

Outcome RocksEngine::walk(const KeyRange& range, bool values, ItemVisitor visit) {
  rocksdb::ReadOptions options;
  options.fill_cache = values;
  std::string bound;
  rocksdb::Slice bound_slice;
  if (range.end) {
    bound = *range.end;
    if (range.end_inclusive) bound.push_back('\0');  // the next string
    bound_slice = bound;
    options.iterate_upper_bound = &bound_slice;
  }
  std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator(options, family(kData)));
  for (it->Seek(slice(range.start)); it->Valid(); it->Next()) {
    const auto stored = parse_value(view(it->value()));
    if (!stored) return fail(rocksdb::Status::Corruption("a value without a header"));
    if (!is_past(stored->expires_at_ms) && !visit(view(it->key()), stored->value)) break;
    if (pause()) return Outcome::kCancelled;
  }
  return it->status().ok() ? Outcome::kDone : fail(it->status());
}

Outcome RocksEngine::keys(const KeyRange& range, KeyVisitor visit) {
  return walk(range, false, [&](std::string_view key, std::string_view) { return visit(key); });
}

Outcome RocksEngine::range(const KeyRange& range, uint64_t limit, ItemVisitor visit) {
  if (limit == 0) return Outcome::kDone;
  return walk(range, true, [&](std::string_view key, std::string_view value) {
    return visit(key, value) && --limit > 0;
  });
}

Outcome RocksEngine::count(const KeyRange& range, uint64_t& out) {
  out = 0;
  return walk(range, false, [&](std::string_view, std::string_view) { return ++out > 0; });
}

bool RocksEngine::may_have_expired() const {
  return volatile_keys_.load(std::memory_order_relaxed) > 0 ||
         !exact_.load(std::memory_order_acquire);
}

bool RocksEngine::is_live(std::string_view key) {
  if (!may_have_expired()) return true;
  rocksdb::PinnableSlice raw;
  Stored stored;
  return load(key, raw, stored) && stored.current.exists;
}

Outcome RocksEngine::scan(uint64_t& cursor, size_t count, KeyVisitor visit) {
  rocksdb::ReadOptions options;
  options.fill_cache = false;
  std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator(options, family(kOrder)));
  size_t left = std::max<size_t>(count, 1);
  // Whole steps of the cursor only: keys whose hashes share one are in one page.
  uint64_t next = 0;
  for (it->Seek(ordered_word(cursor << kCursorShift)); it->Valid(); it->Next()) {
    const auto at = parse_ordered_key(view(it->key()));
    if (!at) return fail(rocksdb::Status::Corruption("a record without a hash"));
    const uint64_t step = at->word >> kCursorShift;
    if (left == 0 && step >= next) {
      cursor = next;
      return Outcome::kDone;
    }
    next = (step + 1) % kCursorEnd;
    left -= left > 0 ? 1 : 0;
    if (is_live(at->key) && !visit(at->key)) {
      cursor = next;
      return Outcome::kDone;
    }
    if (pause()) return Outcome::kCancelled;
    if (left == 0 && next == 0) left = 1;  // the last step has no end but the end
  }
  cursor = 0;
  return it->status().ok() ? Outcome::kDone : fail(it->status());
}

Outcome RocksEngine::random_key(ValueSink sink) {
  const std::unique_ptr<rocksdb::Iterator> it = order(rocksdb::ReadOptions());
  const uint64_t random = random_.fetch_add(0x9e3779b97f4a7c15u, std::memory_order_relaxed);
  it->Seek(ordered_word((random ^ (random >> 29)) * 0xbf58476d1ce4e5b9u));
  for (int i = 0; i < kRandomTries; ++i) {
    if (!it->Valid()) it->SeekToFirst();
    if (!it->Valid()) break;
    const auto at = parse_ordered_key(view(it->key()));
    if (at && is_live(at->key)) {
      sink(at->key);
      return Outcome::kDone;
    }
    it->Next();
  }
  return it->status().ok() ? Outcome::kNone : fail(it->status());
}

// One batch of range deletions while no writer is at work.
Outcome RocksEngine::flush() {
  stop_recount();
  pause();
  std::vector<std::unique_lock<std::mutex>> guards;
  guards.reserve(kStripes);
  for (std::mutex& lock : stripes_) guards.emplace_back(lock);
  rocksdb::WriteBatch batch;
  for (const Family f : {kData, kOrder, kExpiry}) {
    std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator(rocksdb::ReadOptions(), family(f)));
    it->SeekToLast();
    if (!it->status().ok()) return fail(it->status());
    if (!it->Valid()) continue;
    batch.DeleteRange(family(f), rocksdb::Slice(), it->key()).PermitUncheckedError();
    batch.Delete(family(f), it->key()).PermitUncheckedError();
  }
  const Outcome outcome = write(batch, {}, Sync::kAsDurability);
  if (outcome != Outcome::kDone) return outcome;
  keys_.store(0, std::memory_order_relaxed);
  volatile_keys_.store(0, std::memory_order_relaxed);
  exact_.store(true, std::memory_order_release);
  guards.clear();
  pause();
  for (const Family f : {kData, kOrder, kExpiry}) {
    // Compaction would also give the space back, only later.
    rocksdb::DeleteFilesInRange(db_.get(), family(f), nullptr, nullptr).PermitUncheckedError();
    pause();
  }
  return Outcome::kDone;
}

uint64_t RocksEngine::expire_some(uint32_t limit) {
  try_to_resume();
  account_.note_data(memory_bytes());
  uint64_t removed = 0;
  while (removed < limit) {
    const auto wanted = static_cast<uint32_t>(std::min<uint64_t>(limit - removed, kExpireAtOnce));
    const uint32_t batch = expire_batch(wanted);
    removed += batch;
    for (uint32_t i = 0; i <= batch; ++i) pause();
    if (batch < wanted) break;
  }
  return removed;
}

uint32_t RocksEngine::expire_batch(uint32_t limit) {
  if (!may_have_expired()) return 0;
  const int64_t now_ms = clock_.now_ms();
  const std::string bound = ordered_word(static_cast<uint64_t>(now_ms) + 1);
  const rocksdb::Slice bound_slice = bound;
  rocksdb::ReadOptions options;
  options.iterate_upper_bound = &bound_slice;
  std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator(options, family(kExpiry)));
  std::vector<std::string> due;
  // Keys removed long ago still lie there as tombstones, so the search begins behind them. A clock
  // that was set back moves the beginning with it.
  const int64_t margin_ms = std::max<int64_t>(now_ms - kExpiryMarginMs, 0);
  const int64_t from_ms = std::min(expire_from_ms_.load(std::memory_order_relaxed), margin_ms);
  it->Seek(ordered_word(static_cast<uint64_t>(from_ms)));
  for (; it->Valid() && due.size() < limit; it->Next()) {
    if (const auto at = parse_ordered_key(view(it->key()))) due.emplace_back(at->key);
  }
  const bool finished = it->status().ok();
  it.reset();
  if (due.empty()) {
    if (finished) expire_from_ms_.store(margin_ms, std::memory_order_relaxed);
    return 0;
  }

  const uint32_t removed = remove_expired(due);
  swept_.fetch_add(removed, std::memory_order_release);
  return removed;
}

uint32_t RocksEngine::remove_expired(std::span<const std::string> keys) {
  std::vector<size_t> locked;
  for (const std::string& key : keys) locked.push_back(hash_key(key, seed_) % kStripes);
  std::sort(locked.begin(), locked.end());
  locked.erase(std::unique(locked.begin(), locked.end()), locked.end());
  std::vector<std::unique_lock<std::mutex>> guards;
  for (const size_t i : locked) guards.emplace_back(stripes_[i]);
  rocksdb::WriteBatch batch;
  Delta delta;
  for (const std::string& key : keys) {
    rocksdb::PinnableSlice raw;
    Stored stored;
    if (!load(key, raw, stored)) return 0;
    if (!stored.is_there || stored.current.exists) continue;  // changed in the meantime
    add_erase(batch, key, hash_key(key, seed_), stored, delta);
  }
  if (batch.Count() == 0) return 0;
  // If a crash loses this, they are removed again.
  if (write(batch, delta, Sync::kNo) != Outcome::kDone) return 0;
  return static_cast<uint32_t>(delta.expired);
}

}  // namespace rubato::kv
