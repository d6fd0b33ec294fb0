// SPDX-License-Identifier: Apache-2.0
//
// Every bound of the runtime in one place. Full means an explicit refusal and a counter.
#pragma once

#include <cstdint>

#include "base/time.h"

namespace rubato::limits {

inline constexpr uint32_t kMaxWorkers = 256;        // worker contexts of one process
inline constexpr uint32_t kSimulatedWorkers = 4096; // of one simulated server
inline constexpr uint32_t kMaxManagers = 64;        // groups of workers with a manager each
inline constexpr uint32_t kMailbox = 256;           // messages on their way to one manager
inline constexpr uint32_t kMessageJobs = 16;        // jobs that one message carries
inline constexpr uint32_t kPriorityLevels = 8;      // prioritised wait queues (Synergy 7.4)
inline constexpr uint32_t kGroups = 16;             // of requests that share workers by weight
inline constexpr uint32_t kTypes = 64;              // request types that policies tell apart
inline constexpr uint32_t kBurst = 32;              // requests taken from a datapath at once
// A worker with requests of its own asks its datapath after so long, or so many of them.
inline constexpr Nanos kPollEvery = Nanos::micros(50);
inline constexpr uint32_t kPollPicks = 32;
// Idle workers take in the arrivals of one that has not asked for so long.
inline constexpr Nanos kHelpAfter = Nanos::micros(100);
inline constexpr uint32_t kInboxCapacity = 16384;   // requests waiting at one worker
inline constexpr uint32_t kSharedCapacity = 16384;  // requests in one global queue
inline constexpr uint32_t kStealMax = 32;           // requests moved by one steal
inline constexpr uint32_t kOffloadThreads = 16;     // helpers of one runtime for blocking calls
inline constexpr uint32_t kCacheLineBytes = 64;

}  // namespace rubato::limits
