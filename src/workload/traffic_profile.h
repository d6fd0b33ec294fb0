// SPDX-License-Identifier: Apache-2.0
//
// TrafficProfile: what a live server recorded of its requests (`rubato serve --profile FILE`), and
// its file form `rubato.profile/1`, which docs/PROFILES.md explains key by key. A plain value;
// pure functions, safe on every thread.
//
// What it holds is what a planner needs, because the simulator's requests are made of the same
// parts (workload/source.h): types and how often each comes, the distribution of the service time
// of each, how many flows there are, and when requests arrive. Of the last a mean rate would not
// do, for queues come from bursts, and a histogram of gaps would not either: no worker sees the
// gaps of the whole server, and gaps say nothing of how they follow each other. The Allan factors
// do for the second moment: they fix the variance of the number of requests in any stretch of time
// from the finest slot up, and with it how much work can come at once
// (workload/count_scales.h). They add over workers after the fact, since counts of slots do.
//
// What it cannot tell: order and distance within a finest slot (33 us; a busy server knows no
// better when a request came); whether types, service times and bursts go together; which flows
// are busy; a trend over the whole recording; and what clients would have sent had the server
// answered sooner or later.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "workload/source.h"

namespace rubato {

struct TrafficProfile {
  static constexpr size_t kMostBuckets = 4096;  // of one type

  // From arrival to reply, as the server saw it.
  struct Latency {
    double mean_us = 0, p50_us = 0, p99_us = 0, p999_us = 0, max_us = 0;
  };
  struct Type {
    std::string name;
    uint64_t count = 0;                  // requests answered
    std::vector<ServiceBucket> service;  // by rising time
    Latency latency;                     // for comparison: the simulator finds its own
  };

  // The server, for readers of the file.
  std::string version, policy;
  uint32_t workers = 0;
  double utilization = 0;  // share of their time that the workers spent on requests

  double span_s = 0;           // from the first to the last arrival
  uint64_t refused = 0;        // arrived and were not served
  uint64_t control = 0;        // control-plane requests, which nothing else here counts
  uint32_t flows = 0;          // most that were open at once; 0 = unknown
  ArrivalScales arrivals;
  uint64_t late = 0;           // arrivals in the rate that were noticed too late for the scales
  uint64_t gaps = 0;           // times that the recording of slots fell behind
  std::vector<Type> types;     // 1 to Mix::kMaxRecordedTypes, of different names
};

// The file, with a trailing newline. Names that are not UTF-8 are mended.
std::string to_json(const TrafficProfile& profile);

// Reads the bytes of a file; of the keys only those that a simulation needs must be there. Fails
// with one line that names the key and what it takes.
Result<TrafficProfile> parse_traffic_profile(std::string_view text);

// Makes `workload` draw the profile's requests at its own rate. Leaves alone what a profile does
// not know. Requires a profile as parse_traffic_profile returns them.
void use_profile(const TrafficProfile& profile, const std::string& name, WorkloadSpec& workload);

}  // namespace rubato
