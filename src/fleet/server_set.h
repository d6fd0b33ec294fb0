// SPDX-License-Identifier: Apache-2.0
//
// ServerSet: the servers of a world. Each is an engine of the simulator (sim/hosted_server.h) with
// a policy, a machine and overload control of its own; no scheduling is done here. Beside them it
// keeps what a server says of itself to balancers: its load and latency for probes, and the weight
// of its agent port. One owner.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "fleet/world_spec.h"
#include "overload/advertised_weight.h"
#include "overload/latency_by_load.h"
#include "overload/one_thread.h"
#include "sim/batch.h"
#include "sim/event_queue.h"
#include "sim/hosted_server.h"

namespace rubato::fleet {

// A server's sums since the world's begin.
struct ServerMark {
  sim::Progress sums;  // `useful` has the overheads too, and `done` all that was served
  uint64_t refused = 0, lost = 0;
};

struct ServerOutcome {
  std::string name;      // of its group
  double busy_share = 0;  // of the workers' measured time
  uint64_t served = 0, refused = 0, lost = 0;  // in all
  uint64_t learning = 0;  // requests that its policy learns from before it has a plan
  std::vector<ServerMark> marks;  // where batches begin, and where the last one ends
};

class ServerSet {
 public:
  // Who hears of answers: the token of a request, what became of it, and when its reply leaves.
  class Listener {
   public:
    virtual ~Listener() = default;
    virtual void answered(uint64_t token, sim::Fate fate, Instant at) = 0;
  };

  // `types` are the requests that may come. Fails with one line. `listener` outlives the servers.
  static Result<std::unique_ptr<ServerSet>> make(const WorldSpec& spec, const Mix& types,
                                                 Listener& listener);

  uint32_t size() const { return static_cast<uint32_t>(servers_.size()); }

  // The request, whose service is that on a server of speed 1, reaches a server at offer.at.
  // Returns its place, by which it can be cancelled until it is answered.
  uint32_t send(uint32_t server, sim::SentRequest request);
  // Its server hears that nobody waits for it any more.
  void cancel(uint32_t place) { inside_[place].abandoned = true; }

  Instant next() const { return events_.first().at; }
  // The first event of any server. Requires one.
  void step();

  uint32_t admitted_levels(uint32_t server) const {
    return servers_[server]->engine->admitted_levels();
  }
  overload::ServerLoad probe(uint32_t server, Instant now) const;
  // To be called every AdvertisedWeight::kLookEvery.
  const std::vector<int>& weights();

  // The next batch begins, or the last one ends.
  void mark(Instant now);
  // Their busy shares are left to sum_measured (fleet/measured.h).
  std::vector<ServerOutcome> take_outcomes();

 private:
  // One server, which hears of its own answers.
  struct Server final : sim::ServerClient {
    Server(ServerSet& the_set, const ServerGroup& the_group, Nanos target)
        : set(the_set), group(the_group), weight(target) {}
    void answered(uint64_t token, sim::Fate fate, Instant at) override;

    ServerSet& set;
    const ServerGroup& group;
    std::unique_ptr<sim::HostedServer> engine;
    uint32_t in_flight = 0;
    uint64_t served = 0, refused = 0, lost = 0;
    std::vector<ServerMark> marks;
    overload::AdvertisedWeight weight;
    double waited_ns = 0;  // of answers since the last look, and how many these are
    uint64_t waits = 0;
    overload::LatencyByLoad<overload::OneThread> latencies;
  };
  // What is remembered of a request while a server has it.
  struct Inside {
    Instant arrived;
    Nanos service;
    uint64_t token;
    uint32_t load;  // others inside when it came
    bool abandoned = false;
  };

  explicit ServerSet(Listener& listener, uint32_t servers)
      : listener_(listener), events_(servers) {}

  void note(Server& server, const Inside& request, sim::Fate fate, Instant at);
  void follow(uint32_t server) { events_.schedule(server, servers_[server]->engine->next()); }
  static double speed_of(const ServerGroup& group, Instant now);

  Listener& listener_;
  std::vector<std::unique_ptr<Server>> servers_;
  sim::EventQueue events_;  // a source for each server
  std::deque<Inside> inside_;  // servers look at `abandoned`
  std::vector<uint32_t> free_;  // places in inside_
  std::vector<int> weights_;
  Instant now_;  // of the step that is done
};

}  // namespace rubato::fleet
