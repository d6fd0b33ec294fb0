// SPDX-License-Identifier: Apache-2.0
//
// RequestFeed: the one that empties the request rings of a runtime, for several readers: each gets
// every record that comes while it wants them, so that a recording and an exporter of spans go
// together. Whoever reads empties the rings for all of them; what waits for a reader that does not
// come is bounded. Borrows the rings. Any thread; no call waits for a disk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "metrics/counter.h"
#include "runtime/request_ring.h"

namespace rubato {

class RequestFeed {
 public:
  explicit RequestFeed(std::vector<RequestRing*> rings);
  RequestFeed(const RequestFeed&) = delete;
  RequestFeed& operator=(const RequestFeed&) = delete;

  class Reader {
   public:
    explicit Reader(RequestFeed& feed);
    ~Reader();
    Reader(const Reader&) = delete;
    Reader& operator=(const Reader&) = delete;

    // From now on records wait for it, and none of before; or no more do, but those that wait stay.
    void want(bool wanted);
    // Takes those that wait, in the place of what `records` has.
    void take(std::vector<RequestRecord>& records);
    // Records that it was to get and for which there was no room, as of the last look into the
    // rings.
    uint64_t dropped() const { return dropped_.value(); }

   private:
    friend class RequestFeed;
    RequestFeed& feed_;
    // Guarded by the feed's mutex.
    bool wanted_ = false;
    std::vector<RequestRecord> waiting_;
    Counter dropped_;
  };

 private:
  void empty_rings();

  const std::vector<RequestRing*> rings_;
  const size_t most_waiting_;  // for a reader: as many as the rings hold
  std::mutex mutex_;           // guards all below, and the readers
  std::vector<Reader*> readers_;
  std::vector<RequestRecord> batch_;
  uint64_t dropped_noted_ = 0;  // by the rings
};

}  // namespace rubato
