// SPDX-License-Identifier: Apache-2.0
//
// SimRequest, and the pool that lends them. A run of any length needs memory for the most requests
// that were ever in flight at once. One owner.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

#include "base/check.h"
#include "base/ids.h"
#include "base/limits.h"
#include "sched/request_state.h"
#include "workload/source.h"

namespace rubato::sim {

struct alignas(limits::kCacheLineBytes) SimRequest : RequestState {
  Instant sent;                  // by the client; latency counts from here
  SimRequest* next_free = nullptr;  // of the pool, while it is there
  Nanos service;                 // in all
  Nanos left;                    // of it
  const bool* abandoned = nullptr;  // of a hosted server: nobody waits for it any more
  uint64_t id = 0;               // its number in the run
  uint32_t true_type = 0;        // `type` is the guess of the classifier
  uint32_t last_on = 0;          // the worker that has it, or had it last; has_started says if any
  uint32_t session = 0;          // of an elastic server (sim/elastic_server.h)
  bool measured = false;         // arrived after the warm-up
  bool has_yielded = false;      // at its next critical section, whose lock it found taken
  uint16_t sections = 0;         // critical ones that it has entered

  // The request that was sent as `offer`, the run's number `number`, can be seen by software.
  void arrive(const Offer& offer, uint64_t number, Instant now, Instant warm_at) {
    arrived = now;
    sent = offer.at;
    service = left = offer.service;
    flow = offer.flow;
    id = number;
    true_type = offer.type;
    type = offer.seen_type + 1;  // to a policy, type 0 is unknown
    measured = offer.at >= warm_at;
  }
};

class RequestPool {
 public:
  // Its fields are those of a new SimRequest, made in place and field by field: to clear it as a
  // whole is slower (`rep stos`).
  SimRequest* borrow() {
    if (free_ == nullptr) [[unlikely]] grow();
    SimRequest* const request = free_;
    free_ = request->next_free;
    ::new (request) SimRequest;
    ++in_use_;
    return request;
  }
  // Requires a borrowed one that was not given back.
  void give_back(SimRequest* request) {
    RUBATO_DCHECK(in_use_ > 0 && request->next_free == nullptr);
    request->next_free = free_;
    free_ = request;
    --in_use_;
  }

  uint64_t in_use() const { return in_use_; }

 private:
  static constexpr size_t kChunk = 256;

  [[gnu::noinline, gnu::cold]] void grow() {
    chunks_.push_back(std::make_unique<std::array<SimRequest, kChunk>>());
    for (SimRequest& request : *chunks_.back()) {
      request.next_free = free_;
      free_ = &request;
    }
  }

  std::vector<std::unique_ptr<std::array<SimRequest, kChunk>>> chunks_;
  SimRequest* free_ = nullptr;
  uint64_t in_use_ = 0;
};

}  // namespace rubato::sim
