// SPDX-License-Identifier: Apache-2.0
//
// Departures<Server>: how requests leave a simulated server: completed, refused, or lost at a full
// NIC ring. The client gets its answer, and the latency of measured requests is recorded. One
// owner.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "sim/batch_recorder.h"
#include "sim/hosted_server.h"
#include "sim/request.h"
#include "sim/setup.h"
#include "sim/simulation.h"
#include "workload/source.h"

namespace rubato::sim {

// Requests that have come so far. Of an elastic server: that its clients have generated.
struct ArrivalTotals {
  uint64_t arrived = 0;
  uint64_t measured = 0;  // after the warm-up
  Nanos work;             // their service times, of all that have come
  Instant last;
};

template <class Server>
class Departures {
 public:
  // All references outlive this.
  Departures(const Setup& setup, const Watch& watch, Server& server, RequestPool& pool,
             const ArrivalTotals& arrivals, const uint64_t& requests, Instant warm_at)
      : requests_(requests),
        reject_(setup.costs.cores.refuse),
        way_back_(setup.costs.nic.pcie + setup.costs.network_rtt / 2),
        warm_at_(warm_at),
        watch_(watch),
        server_(server),
        pool_(pool),
        arrivals_(arrivals),
        recorder_(types_of(setup.workload).size(), first_cell(setup, watch)) {}

  // The request is done, and its reply leaves the worker at `sent`.
  void complete(const SimRequest& request, Instant now, Instant sent) {
    const bool moved = request.moves % 2 == 1;  // back and forth is not moved
    moved_ += moved ? 1 : 0;
    if (now >= warm_at_ && arrivals_.arrived < requests_) ++done_in_time_;
    Instant replied = Server::kIdeal ? sent : sent + way_back_;
    if constexpr (Server::kElastic) {
      replied = server_.answer(request.session, true, now, sent);
      server_.update_credits(now);
    }
    if (client() != nullptr) [[unlikely]] {
      const Fate fate = request.cancelled ? Fate::kRefused : Fate::kServed;
      client()->answered(request.id, fate, replied);
    }
    if (!request.measured) return;
    recorder_.now().done(request, replied - request.sent);
    if (watch_.done) [[unlikely]]
      watch_.done({request.id, request.sent, replied - request.sent, request.true_type, moved});
  }

  void refuse(SimRequest& request, Instant now) {
    if (request.measured) {
      recorder_.now().refused(request.true_type);
      ++refusals_[static_cast<size_t>(request.refusal)];
    }
    if constexpr (Server::kElastic) server_.answer(request.session, false, now, now + reject_);
    if (client() != nullptr) [[unlikely]] {
      client()->answered(request.id, Fate::kRefused, now + reject_ + way_back_);
    }
    pool_.give_back(&request);
  }

  // No client is told.
  void lose(SimRequest& request) {
    if (request.measured) recorder_.now().lost(request.true_type);
    if (client() != nullptr) [[unlikely]] {
      client()->answered(request.id, Fate::kLost, Instant::never());
    }
    pool_.give_back(&request);
  }

  uint64_t done_in_time() const { return done_in_time_; }  // completions while requests arrived
  uint64_t moved() const { return moved_; }  // served by another group than they came to
  // Measured ones, by Refusal.
  const std::array<uint64_t, kRefusals>& refusals() const { return refusals_; }
  BatchRecorder& batches() { return recorder_; }

 private:
  ServerClient* client() const { return Server::kIdeal ? nullptr : watch_.client; }

  // A run of known length gets its batches at once; one that goes on as long as it is asked to
  // begins with cells that its workers fill several times.
  static uint64_t first_cell(const Setup& setup, const Watch& watch) {
    constexpr uint64_t kLeast = 256;
    constexpr uint64_t kCells = 36 * kCellsPerBatch;  // fewer than are joined
    if (watch.enough) return std::max<uint64_t>(kLeast, 2 * uint64_t{setup.workers});
    const double measured = static_cast<double>(setup.requests) * (1 - setup.warmup);
    return static_cast<uint64_t>(measured / kCells) + 1;
  }

  const uint64_t& requests_;
  Nanos reject_;
  Nanos way_back_;
  Instant warm_at_;
  const Watch& watch_;
  Server& server_;
  RequestPool& pool_;
  const ArrivalTotals& arrivals_;
  BatchRecorder recorder_;
  uint64_t done_in_time_ = 0;
  uint64_t moved_ = 0;
  std::array<uint64_t, kRefusals> refusals_{};
};

}  // namespace rubato::sim
