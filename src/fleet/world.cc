// SPDX-License-Identifier: Apache-2.0
#include "fleet/world.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "fleet/agenda.h"
#include "fleet/measured.h"
#include "fleet/stretches.h"

namespace rubato::fleet {
namespace {

constexpr uint64_t kProgressEvery = 1u << 18;  // events
constexpr Nanos kGrace = Nanos::seconds(60);

// Every group has the same share in it.
Result<Mix> types_of_all(const WorldSpec& spec) {
  std::vector<RequestType> types;
  for (const ClientGroup& group : spec.clients) {
    for (const RequestType& type : types_of(group.workload)) {
      const auto named = [&type](const RequestType& other) { return other.name == type.name; };
      const auto found = std::find_if(types.begin(), types.end(), named);
      found == types.end() ? types.push_back(type) : static_cast<void>(found->share += type.share);
    }
  }
  if (types.size() > Mix::kMaxTypes) {
    return Error{"clients: have over " + std::to_string(Mix::kMaxTypes) + " types in all"};
  }
  return Mix("all", std::move(types));
}

class World {
 public:
  World(const WorldSpec& spec, const Mix& types)
      : spec_(spec),
        population_(spec, types, agenda_),
        stretches_(spec),
        end_at_(stretches_.until()) {}

  Status furnish(const Mix& types) {
    auto servers = ServerSet::make(spec_, types, population_);
    if (!servers) return Error{servers.error()};
    servers_ = std::move(*servers);
    population_.serve_with(*servers_);
    return Done{};
  }

  WorldOutcome run(const std::function<bool(double)>& progress) {
    population_.start();
    agenda_.put({.at = Instant(), .latency = Nanos()});
    bool stopped = false;
    uint64_t events = 0;
    Instant now;
    while (!stopped && (now < end_at_ || population_.open_calls() > 0)) {
      const Instant next = std::min(servers_->next(), agenda_.first());
      if (next > end_at_ + spec_.length + kGrace) break;
      pass(next);
      now = next;
      if (agenda_.first() == now) {
        happen(agenda_.take());
      } else {
        servers_->step();
      }
      if (progress && ++events % kProgressEvery == 0) stopped = !progress(share_at(now));
    }
    if (!stopped) {
      pass(std::max(now, end_at_));
    } else if (marks_ > 0 && marks_ <= stretches_.batches() &&
               now > stretches_.begin_of(marks_ - 1)) {
      mark(now);
    }
    WorldOutcome outcome;
    outcome.servers = servers_->take_outcomes();
    outcome.clients = population_.take_outcomes();
    outcome.simulated = now - Instant();
    outcome.stopped = stopped;
    sum_measured(spec_, outcome);
    return outcome;
  }

 private:
  void happen(const Appointment& event) {
    if (event.what != Happening::kLook) return population_.on_event(event);
    population_.look(event.at);
    agenda_.put({.at = event.at + overload::AdvertisedWeight::kLookEvery, .latency = Nanos()});
  }

  // Time goes on to `to`, with nothing in between.
  void pass(Instant to) {
    while (marks_ <= stretches_.batches() && to >= stretches_.begin_of(marks_)) {
      mark(stretches_.begin_of(marks_));
    }
  }

  void mark(Instant now) {
    population_.mark(now);
    servers_->mark(now);
    ++marks_;
  }

  double share_at(Instant now) const {
    return std::min(1.0, static_cast<double>(now.ns()) / static_cast<double>(end_at_.ns()));
  }

  const WorldSpec& spec_;
  Agenda agenda_;
  Population population_;
  std::unique_ptr<ServerSet> servers_;
  Stretches stretches_;
  Instant end_at_;
  uint32_t marks_ = 0;
};

}  // namespace

Result<WorldOutcome> run_world(const WorldSpec& spec, const std::function<bool(double)>& progress) {
  if (Status fits = validate(spec); !fits) return Error{fits.error()};
  Result<Mix> types = types_of_all(spec);
  if (!types) return Error{types.error()};
  World world(spec, *types);
  if (Status furnished = world.furnish(*types); !furnished) return Error{furnished.error()};
  return world.run(progress);
}

}  // namespace rubato::fleet
