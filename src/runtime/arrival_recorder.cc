// SPDX-License-Identifier: Apache-2.0
#include "runtime/arrival_recorder.h"

#include <algorithm>
#include <utility>

namespace rubato {
namespace {

static_assert(ArrivalScales::kSlot == Nanos(int64_t{1} << ArrivalSlots::kSlotBits));

constexpr double kSlotSeconds = 1e-9 * static_cast<double>(ArrivalScales::kSlot.count());

// Words that will be overwritten soon are not read any more.
constexpr uint64_t kKept = ArrivalSlots::kSlots - 64;

}  // namespace

ArrivalRecorder::ArrivalRecorder(std::vector<ArrivalSlots*> workers, Instant start, Nanos length)
    : workers_(std::move(workers)), length_(length), next_(ArrivalSlots::slot_of(start)) {}

void ArrivalRecorder::collect(Instant now, bool all) {
  const uint64_t present = ArrivalSlots::slot_of(now);
  const uint64_t until = all ? present + 1 : ArrivalSlots::slot_of(now - kSettle);
  uint64_t newest = 0;
  for (ArrivalSlots* worker : workers_) {
    worker->take_until(until);
    newest = std::max(newest, worker->newest());
  }
  if (newest >= next_ && present - next_ >= kKept && present >= kKept) lose_until(present - kKept);
  for (; next_ <= newest && next_ < std::min(until, end_); ++next_) {
    uint64_t count = 0;
    for (const ArrivalSlots* worker : workers_) count += worker->count(next_);
    add(count);
  }
  const uint64_t quiet_until = std::min(until, end_);
  if (next_ >= quiet_until) return;
  empty_ += begun_ ? quiet_until - next_ : 0;
  next_ = quiet_until;
}

void ArrivalRecorder::add(uint64_t count) {
  if (count == 0) {
    empty_ += begun_ ? 1 : 0;
    return;
  }
  if (!begun_) {
    begun_ = true;
    if (length_ < Nanos::max()) end_ = next_ + (static_cast<uint64_t>(length_.count()) >>
                                                ArrivalSlots::kSlotBits) + 1;
  }
  scales_.add_empty(empty_);
  scales_.add(count);
  spanned_ += empty_ + 1;
  empty_ = 0;
}

void ArrivalRecorder::lose_until(uint64_t slot) {
  if (slot <= next_) return;
  ++gaps_;
  scales_.skip();
  empty_ = 0;
  next_ = std::min(slot, end_);
}

double ArrivalRecorder::span_s() const {
  return spanned_ < 2 ? 0 : static_cast<double>(spanned_ - 1) * kSlotSeconds;
}

uint64_t ArrivalRecorder::late() const {
  uint64_t sum = 0;
  for (const ArrivalSlots* worker : workers_) sum += worker->late();
  return sum;
}

ArrivalScales ArrivalRecorder::arrivals() const {
  ArrivalScales scales{.rate_rps = 0, .allan = scales_.allan()};
  const double requests = static_cast<double>(scales_.total() + late());
  if (spanned_ >= 2) scales.rate_rps = (requests - 1) / span_s();
  return scales;
}

}  // namespace rubato
