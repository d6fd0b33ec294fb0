// SPDX-License-Identifier: Apache-2.0
//
// Measurements of the live mechanisms on this machine, and the costs that the simulator makes of
// them. One thread; the functions that measure start threads of their own and end them. Times are
// nanoseconds per operation.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "calibrate/meter.h"
#include "sim/cost_file.h"

namespace rubato::calibrate {

enum class Operation : uint8_t {
  kClock,
  kPut,
  kTake,
  kOrderedPut,
  kOrderedTake,
  kLook,
  kLookHead,
  kLookChanged,
  kTurn,
  kAwake,
  kStealOne,
  kStealEight,
  kSwitch,
  kResumeHere,
  kResumeThere,
  kFlagSend,
  kFlagSeen,
  kPoll,
  kPollBetween,
  kPollBurst,
  kReceive,
  kSend,
  kAfterReply,
  kSubmit,
  kIdle,
  kRoundOfOne,
  kRoundOfTwo,
  kRoundBesideStuck,
  kArm,
  kCheck,
  kFeedback,
  kSliceEnd,
  kSliceBegins,
  kPreemption,
  kCut,
  kReplyResume,
  kOvershoot,
  kParkCore,
  kWakeCore,
  kPlaceThread,
  kCount,
};

struct OperationInfo {
  const char* name;
  const char* how;  // it is measured
};
const OperationInfo& info_of(Operation operation);

class Samples {
 public:
  Sample& operator[](Operation operation) { return samples_[static_cast<size_t>(operation)]; }
  const Sample& operator[](Operation operation) const {
    return samples_[static_cast<size_t>(operation)];
  }

 private:
  std::array<Sample, static_cast<size_t>(Operation::kCount)> samples_;
};

// Where to measure: the calling thread on `here`, its partner or worker on `there`, which is the
// second CPU that the process may use; the same where there is only one, and then what needs two is
// left out.
struct Place {
  std::vector<uint32_t> cpus;  // all that the process may use
  uint32_t here() const { return cpus.front(); }
  uint32_t there() const { return two() ? cpus[1] : cpus[0]; }
  bool two() const { return cpus.size() > 1; }
};

// Keeps the calling thread on place.here() while it lives. A machine that refuses is measured all
// the same.
class Pinned {
 public:
  explicit Pinned(const Place& place);
  ~Pinned();
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;

 private:
  const Place& place_;
};

// Each fills its part of `samples`, and stops early when the meter is stopped. What could not
// be measured keeps no batches.
void measure_queues(const Meter& meter, const Place& place, Samples& samples);
void measure_fibers(const Meter& meter, const Place& place, Samples& samples);
void measure_flags(const Meter& meter, const Place& place, Samples& samples);
void measure_cores(const Meter& meter, const Place& place, Samples& samples);  // needs two CPUs
// These run the live runtime; fail with one line if it cannot be made.
Status measure_requests(const Meter& meter, const Place& place, Samples& samples);
Status measure_slices(const Meter& meter, const Place& place, Samples& samples);
Status measure_rounds(const Meter& meter, const Place& place, Samples& samples);

// The machine as the simulator sees it, and what each figure is made of.
sim::Costs costs_of(const Samples& samples);
sim::CostNotes notes_of(const Samples& samples);

}  // namespace rubato::calibrate
