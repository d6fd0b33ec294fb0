// SPDX-License-Identifier: Apache-2.0
//
// SimRequest, and the pool that lends them. A run uses as many as were ever in flight at once,
// whatever its length. One owner.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/ids.h"
#include "policy/job.h"

namespace rubato::sim {

struct SimRequest : Job {
  static constexpr uint32_t kNowhere = UINT32_MAX;

  Instant sent;                  // by the client; latency counts from here
  Nanos service;                 // in all
  Nanos left;                    // of it
  uint64_t id = 0;               // its number in the run
  uint32_t true_type = 0;        // `type` is what the classifier took it for
  uint32_t last_on = kNowhere;   // the worker that had it last
  // On an elastic site (sim/site.h) only:
  uint32_t session = 0;
  Instant waits_since;           // arrived, or was cut
  bool measured = false;         // arrived after the warm-up
};

class RequestPool {
 public:
  // Its fields are those of a new SimRequest.
  SimRequest* borrow() {
    if (free_.empty()) grow();
    SimRequest* request = free_.back();
    free_.pop_back();
    *request = SimRequest();
    return request;
  }
  void give_back(SimRequest* request) { free_.push_back(request); }

  uint64_t in_use() const { return chunks_.size() * kChunk - free_.size(); }

 private:
  static constexpr size_t kChunk = 256;

  void grow() {
    chunks_.push_back(std::make_unique<std::array<SimRequest, kChunk>>());
    free_.reserve(chunks_.size() * kChunk);
    for (SimRequest& request : *chunks_.back()) free_.push_back(&request);
  }

  std::vector<std::unique_ptr<std::array<SimRequest, kChunk>>> chunks_;
  std::vector<SimRequest*> free_;
};

}  // namespace rubato::sim
