// SPDX-License-Identifier: Apache-2.0
//
// RequestRing: what one worker says of the requests that it ends, for a recorder
// (runtime/request_recorder.h): when each arrived and how long it took.
#pragma once

#include <cstdint>

#include "base/time.h"
#include "datapath/request.h"
#include "runtime/record_ring.h"

namespace rubato {

struct RequestRecord {
  Instant arrived;
  Nanos service;  // on workers; zero = it was refused
  Nanos latency;  // from arrival to reply
  uint64_t flow = 0;  // 0 = none
  uint32_t type = 0;
  bool refused = false;
};

// 768 KiB.
class RequestRing final : public RecordRing<RequestRecord, bool> {
 public:
  // The worker. Requests of the control plane are left out.
  void note(const Request& request, Nanos latency, bool refused) {
    if (!wanted() || request.is_control()) [[likely]] return;
    put({request.arrived, refused ? Nanos() : request.attained, latency, request.flow,
         request.type, refused});
  }
};

}  // namespace rubato
