// SPDX-License-Identifier: Apache-2.0
#include "sim/clients.h"

#include <algorithm>
#include <utility>

#include "workload/sampling.h"

namespace rubato::sim {
namespace {

constexpr uint64_t kDelayStream = 0x3c6ef372fe94f82bu;

// The sum of two exponentials of mean 1 is below this 99 % of the time.
constexpr double kRoundTripP99 = 6.6384;

}  // namespace

Clients::Clients(const WorkloadSpec& workload, uint64_t requests, uint64_t seed,
                 const Costs& costs, const ClientSettings& settings, int64_t credit,
                 Instant warm_at)
    : settings_(settings),
      source_(workload, seed),
      requests_(requests),
      prng_(seed ^ kDelayStream),
      warm_at_(warm_at),
      sessions_(settings.sessions),
      unsent_(types_of(workload).size()) {
  const double rtt = static_cast<double>(costs.network_rtt.count());
  const double p99 = std::max(rtt, static_cast<double>(costs.network_rtt_p99.count()));
  delay_spread_ns_ = std::min((p99 - rtt) / (kRoundTripP99 - 2), rtt / 2);
  fixed_delay_ = Nanos(static_cast<int64_t>(rtt / 2 - delay_spread_ns_)) + costs.nic.pcie;
  for (Session& session : sessions_) session.credit = credit;
  draw();
}

// Its session is fetched while others have their events.
void Clients::draw() {
  coming_ = source_.next();
  coming_session_ = static_cast<uint32_t>(coming_.flow % settings_.sessions);
  __builtin_prefetch(&sessions_[coming_session_], 1);
}

Nanos Clients::one_way_delay() {
  if (delay_spread_ns_ == 0) return fixed_delay_;
  return fixed_delay_ + Nanos(static_cast<int64_t>(delay_spread_ns_ * sample_exponential(prng_)));
}

Instant Clients::next() const {
  const Instant coming = generated_ < requests_ ? coming_.at : Instant::never();
  return packets_.empty() ? coming : std::min(coming, packets_.front().at);
}

namespace {
constexpr auto kLater = [](const auto& a, const auto& b) {
  return a.at != b.at ? a.at > b.at : a.number > b.number;
};
}  // namespace

void Clients::push(Packet packet) {
  packet.number = packets_ever_++;
  packets_.push_back(packet);
  std::push_heap(packets_.begin(), packets_.end(), kLater);
}

Clients::Message Clients::step() {
  const bool generates =
      generated_ < requests_ && (packets_.empty() || coming_.at < packets_.front().at);
  if (generates) {
    generate();
    return {};
  }
  std::pop_heap(packets_.begin(), packets_.end(), kLater);
  const Packet packet = packets_.back();
  packets_.pop_back();
  if (packet.to_server) return {packet.kind, packet.session, packet.value, packet.offer};
  Session& session = sessions_[packet.session];
  session.underway -= packet.answered;
  session.credit = packet.value;
  drain(packet.session, packet.at);
  return {};
}

Instant Clients::send_credit(uint32_t id, int64_t credit, Instant at, int64_t answered) {
  Session& session = sessions_[id];
  session.at_client = std::max(session.at_client, at + one_way_delay());
  push({.at = session.at_client,
        .session = id,
        .value = credit,
        .answered = answered,
        .offer = {}});
  return session.at_client;
}

void Clients::generate() {
  const Offer offer = coming_;
  const uint32_t id = coming_session_;
  Session& session = sessions_[id];
  ++generated_;
  generated_warm_ += offer.at >= warm_at_ ? 1u : 0u;
  last_generated_ = offer.at;
  if (generated_ < requests_) draw();
  if (session.queued == kQueue) discard_oldest(session);
  queue_up(session, offer);
  drain(id, offer.at);
}

// Sends the requests that the credit allows. A session without credit and with nothing underway
// would never get an answer, so it sends its demand.
void Clients::drain(uint32_t id, Instant now) {
  Session& session = sessions_[id];
  discard_expired(session, now);
  while (session.queued > 0 && session.underway < session.credit) {
    const Offer offer = take_oldest(session);
    ++session.underway;
    send(id, Kind::kRequest, offer, now);
    session.demand_advertised = false;
  }
  if (session.queued > 0 && session.underway == 0 && !session.demand_advertised) {
    send(id, Kind::kDemand, {}, now);
    session.demand_advertised = true;
    ++demand_messages_;
  }
}

void Clients::send(uint32_t id, Kind kind, const Offer& offer, Instant now) {
  Session& session = sessions_[id];
  session.at_server = std::max(session.at_server, now + one_way_delay());
  push({.at = session.at_server,
        .to_server = true,
        .kind = kind,
        .session = id,
        .value = session.queued,
        .offer = offer});
}

void Clients::queue_up(Session& session, const Offer& offer) {
  uint32_t place = free_;
  if (place == kNone) {
    place = static_cast<uint32_t>(waiting_.size());
    waiting_.emplace_back();
  } else {
    free_ = waiting_[place].next;
  }
  waiting_[place] = {offer, kNone};
  (session.queued == 0 ? session.first : waiting_[session.last].next) = place;
  session.last = place;
  ++session.queued;
}

// Requires that one waits.
Offer Clients::take_oldest(Session& session) {
  const uint32_t place = session.first;
  session.first = std::exchange(waiting_[place].next, free_);
  free_ = place;
  --session.queued;
  return waiting_[place].offer;
}

void Clients::discard_oldest(Session& session) {
  const Offer offer = take_oldest(session);
  unsent_[offer.type] += offer.at >= warm_at_ ? 1u : 0u;
}

void Clients::discard_expired(Session& session, Instant now) {
  while (session.queued > 0 && now - waiting_[session.first].offer.at > settings_.expiry) {
    discard_oldest(session);
  }
  if (session.queued == 0) session.demand_advertised = false;
}

void Clients::abort() {
  for (Session& session : sessions_) {
    while (session.queued > 0) discard_oldest(session);
  }
}

}  // namespace rubato::sim
