// SPDX-License-Identifier: Apache-2.0
//
// Clients: open-loop load from sessions that obey credits (CoreSync III-A). Requests of the
// workload are spread over the sessions by flow. A session sends as long as fewer of its requests
// are underway than its credit, which is an absolute number and comes with every answer. Requests
// beyond the credit are queued for a while, and then shed by the session. Every request packet
// carries the number of queued ones; a session with no request underway sends that number once in a
// packet of its own.
//
// A packet takes half of a round trip: a fixed part and an exponential one, so that mean and 99th
// percentile of the round trip are those of the machine. The packets of one session and direction
// keep their order. One owner.
#pragma once

#include <cstdint>
#include <vector>

#include "base/limits.h"
#include "base/prng.h"
#include "base/time.h"
#include "sim/costs.h"
#include "workload/source.h"

namespace rubato::sim {

struct ClientSettings {
  static constexpr uint32_t kMostSessions = 1'000'000;
  uint32_t sessions = 100;           // 1 to kMostSessions
  Nanos expiry = Nanos::micros(10);  // a request that waits longer is not sent; max() = never
};

class Clients {
 public:
  static constexpr int64_t kUnlimited = INT64_MAX;  // a credit
  // Requests of a session; the oldest is not sent for one more.
  static constexpr uint32_t kQueue = 16;

  // `credit` is the number of requests that each session may have underway at first. Shed requests
  // that came after `warm_at` are counted.
  Clients(const WorkloadSpec& workload, uint64_t requests, uint64_t seed, const Costs& costs,
          const ClientSettings& settings, int64_t credit, Instant warm_at);

  enum class Kind : uint8_t { kNothing, kRequest, kDemand };
  struct Message {
    Kind kind = Kind::kNothing;  // of the packet that has reached the server
    uint32_t session = 0;
    int64_t demand = 0;
    Offer offer;
  };

  // When step() has something to do; never() = all requests were sent or discarded, and are
  // answered.
  Instant next() const;
  // The first event happens. Requires next() != never().
  Message step();

  // The server sends at `at`: the answer to a request, or a packet that only has credits. Returns
  // when the packet is there.
  Instant answer(uint32_t session, int64_t credit, Instant at) {
    return send_credit(session, credit, at, 1);
  }
  void advertise(uint32_t session, int64_t credit, Instant at) {
    send_credit(session, credit, at, 0);
  }

  // Nothing is underway and nothing will be: all queued requests are not sent.
  void abort();

  // Whose request is generated next; of the last one when none is.
  uint32_t coming() const { return coming_session_; }

  bool generating() const { return generated_ < requests_; }
  uint64_t generated() const { return generated_; }
  Instant last_generated() const { return last_generated_; }
  uint64_t generated_warm() const { return generated_warm_; }
  const std::vector<uint64_t>& unsent() const { return unsent_; }  // by type, after the warm-up
  uint64_t demand_messages() const { return demand_messages_; }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;

  struct alignas(limits::kCacheLineBytes) Session {
    int64_t credit = 0;
    int64_t underway = 0;
    Instant at_server;  // its last packet
    Instant at_client;
    uint32_t first = kNone;  // of its requests that wait, in `waiting_`
    uint32_t last = kNone;
    uint32_t queued = 0;
    bool demand_advertised = false;
  };
  // Each request touches the session of its flow, which of 100,000 is in no near cache: one line
  // of it.
  static_assert(sizeof(Session) == limits::kCacheLineBytes);
  // A request that waits for credit, and the next one of its session; or a free place, and the next
  struct Waiting {
    Offer offer;
    uint32_t next = kNone;
  };
  // On its way between a session and the server.
  struct Packet {
    Instant at;
    uint64_t number = 0;  // among those of the same time
    bool to_server = false;
    Kind kind = Kind::kNothing;
    uint32_t session = 0;
    int64_t value = 0;   // demand, or credit
    int64_t answered = 0;
    Offer offer;
  };

  Instant send_credit(uint32_t session, int64_t credit, Instant at, int64_t answered);
  void draw();
  void generate();
  void send(uint32_t session, Kind kind, const Offer& offer, Instant now);
  void drain(uint32_t session, Instant now);
  void queue_up(Session& session, const Offer& offer);
  Offer take_oldest(Session& session);
  void discard_oldest(Session& session);
  void discard_expired(Session& session, Instant now);
  Nanos one_way_delay();
  void push(Packet packet);

  ClientSettings settings_;
  RequestSource source_;
  uint64_t requests_;
  Prng prng_;
  Nanos fixed_delay_;
  double delay_spread_ns_ = 0;
  Instant warm_at_;
  Offer coming_;
  uint32_t coming_session_ = 0;
  uint64_t generated_ = 0;
  uint64_t generated_warm_ = 0;
  Instant last_generated_;
  uint64_t packets_ever_ = 0;
  uint64_t demand_messages_ = 0;
  std::vector<Session> sessions_;
  std::vector<Waiting> waiting_;
  uint32_t free_ = kNone;        // the first free place there
  std::vector<Packet> packets_;  // a heap, the earliest first
  std::vector<uint64_t> unsent_;
};

}  // namespace rubato::sim
