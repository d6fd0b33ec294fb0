// SPDX-License-Identifier: Apache-2.0
//
// Settings of one live runtime. Plain data, read once by Runtime::create.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "base/limits.h"
#include "base/time.h"
#include "mechanism/preempt/mechanism.h"
#include "overload/shedding.h"
#include "rpc/credit_source.h"
#include "sched/classify.h"

namespace rubato {

// Who looks at the clock while a long request runs.
enum class PreemptionClock : uint8_t {
  kSelf,       // its own worker, at checkpoints; no timer core (SBB 4.3)
  kTimerCore,  // a thread of the runtime polls all workers (Synergy 5.1.3); always so where one
               // sends interrupts, unless it is embedded
  kEmbedded,   // the embedder calls Runtime::poll_timer()
};

enum class Idle : uint8_t {
  kAdaptive,  // spin briefly, then sleep until something arrives
  kSpin,      // never sleep: for isolated cores
};

struct RuntimeOptions {
  std::string policy = "synergy";
  std::map<std::string, std::string> policy_settings;  // --set name=value
  uint32_t workers = 1;                                // 1 .. limits::kMaxWorkers
  Classify classify = Classify::kAge;
  PreemptMechanism preempt = PreemptMechanism::kAuto;  // resolved by Runtime::create
  PreemptionClock preemption_clock = PreemptionClock::kSelf;
  Idle idle = Idle::kAdaptive;
  Nanos idle_spin = Nanos::micros(50);  // none where there are more workers than usable_cpus()
  // Which workers have a core: "" = all, idling as above; or an allocator of src/overload/cores, to
  // which the first `guaranteed_cores` workers are no subject.
  std::string cores;
  std::map<std::string, std::string> cores_settings;
  uint32_t guaranteed_cores = 1;        // 1 .. workers
  CreditSource* credits = nullptr;      // of the server, for `coresync`; outlives the runtime
  bool pin = false;          // worker i on the i-th allowed CPU
  uint32_t pin_first = 0;    // index of the first CPU used, among the allowed ones
  size_t stack_bytes = size_t{64} * 1024;
  uint32_t max_fibers = 4096;  // suspended requests plus one loop fiber per worker
  Nanos drain_limit = Nanos::seconds(10);
  Nanos slow_threshold = Nanos::millis(10);  // Application::slow is told of these
  bool record_arrivals = false;  // count them, see Runtime::arrivals
  bool shed = false;  // refuse requests that waited too long while overloaded, by `shedding`
  overload::SheddingSettings shedding;
  uint32_t inbox_capacity = limits::kInboxCapacity;
  uint32_t shared_capacity = limits::kSharedCapacity;
};

}  // namespace rubato
