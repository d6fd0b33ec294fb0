// SPDX-License-Identifier: Apache-2.0
#include "runtime/request_feed.h"

#include <algorithm>
#include <utility>

namespace rubato {
namespace {

constexpr size_t kBatch = 1024;

}  // namespace

RequestFeed::RequestFeed(std::vector<RequestRing*> rings)
    : rings_(std::move(rings)),
      most_waiting_(rings_.size() * RequestRing::kCapacity),
      batch_(kBatch) {}

void RequestFeed::empty_rings() {
  for (RequestRing* ring : rings_) {
    for (uint32_t taken = kBatch; taken == kBatch;) {
      taken = ring->take(batch_);
      for (Reader* reader : readers_) {
        if (!reader->wanted_) continue;
        const size_t fit = std::min<size_t>(taken, most_waiting_ - reader->waiting_.size());
        reader->waiting_.insert(reader->waiting_.end(), batch_.begin(),
                                batch_.begin() + static_cast<std::ptrdiff_t>(fit));
        reader->dropped_ += taken - fit;
      }
    }
  }
  const uint64_t dropped = dropped_by(rings_);
  for (Reader* reader : readers_) {
    if (reader->wanted_) reader->dropped_ += dropped - dropped_noted_;
  }
  dropped_noted_ = dropped;
}

RequestFeed::Reader::Reader(RequestFeed& feed) : feed_(feed) {
  const std::scoped_lock lock(feed_.mutex_);
  feed_.readers_.push_back(this);
}

RequestFeed::Reader::~Reader() {
  want(false);
  const std::scoped_lock lock(feed_.mutex_);
  std::erase(feed_.readers_, this);
}

void RequestFeed::Reader::want(bool wanted) {
  const std::scoped_lock lock(feed_.mutex_);
  feed_.empty_rings();
  if (wanted) waiting_.clear();
  wanted_ = wanted;
  const bool any = std::any_of(feed_.readers_.begin(), feed_.readers_.end(),
                               [](const Reader* reader) { return reader->wanted_; });
  for (RequestRing* ring : feed_.rings_) ring->want(any);
}

void RequestFeed::Reader::take(std::vector<RequestRecord>& records) {
  records.clear();
  const std::scoped_lock lock(feed_.mutex_);
  feed_.empty_rings();
  records.swap(waiting_);
}

}  // namespace rubato
