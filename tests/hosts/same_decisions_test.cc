// SPDX-License-Identifier: Apache-2.0
//
// The same arrivals, services and times through the queues and contexts of the live host, driven by
// a clock of the test's, and through the simulator: the same becomes of every request, by every
// policy, on one worker and on several, whatever says that requests are long, and whether requests
// are refused for their wait.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "base/prng.h"
#include "live_driver.h"
#include "policy/all.h"
#include "sim/simulation.h"

namespace rubato::testing {
namespace {

constexpr uint32_t kArrivals = 400;
constexpr uint32_t kTypes = 4;
constexpr uint64_t kSeed = 20261122;

// Types 0 and 1 are short, 2 and 3 long. A little more than the workers can do.
std::vector<LiveArrival> random_arrivals(uint64_t seed, uint32_t workers) {
  Prng prng(seed);
  std::vector<LiveArrival> arrivals;
  Instant at;
  for (uint32_t i = 0; i < kArrivals; ++i) {
    at = at + Nanos(1 + prng.below(60'000 / workers));
    const uint32_t type = prng.below(kTypes);
    const bool is_long = type >= kTypes / 2;
    const Nanos service(is_long ? 40'000 + prng.below(60'000) : 1'000 + prng.below(9'000));
    arrivals.push_back({at, service, type + 1, is_long});
  }
  return arrivals;
}

using Limits = std::optional<overload::LimiterSettings>;

sim::Setup setup_of(const std::vector<LiveArrival>& arrivals, const sched::CoreOptions& options,
                    uint32_t workers, const Limits& limits) {
  sim::Setup setup;
  setup.workers = workers;
  setup.costs.nic.steering = sim::Steering::kRoundRobin;
  setup.requests = arrivals.size();
  setup.warmup = 0;
  setup.classify = options.classify;
  setup.refusal_rule = options.refusal_rule;
  setup.limiter = limits;
  setup.long_over = Nanos::micros(20);
  setup.costs.preemption.clock = sim::Clock::kSelf;
  std::vector<RequestType> types;
  for (uint32_t type = 0; type < kTypes; ++type) {
    const Nanos mean = type >= kTypes / 2 ? Nanos::micros(70) : Nanos::micros(5);
    types.push_back({"t" + std::to_string(type), {.mean = mean}, 1.0});
  }
  std::vector<std::string> names;
  for (const RequestType& type : types) names.push_back(type.name);
  std::vector<RecordedRequest> recorded;
  for (const LiveArrival& arrival : arrivals) {
    recorded.push_back({.at = arrival.at - Instant(), .service = arrival.service,
                        .type = arrival.type - 1, .flow = 1});
  }
  setup.workload.mixes.emplace_back("script", types);
  setup.workload.trace = RequestTrace::of(recorded, names).value();
  setup.workload.rate = setup.workload.trace->rate_rps();
  return setup;
}

std::vector<Fate> simulated(const char* policy, const std::vector<LiveArrival>& arrivals,
                            const sched::CoreOptions& options, uint32_t workers,
                            const Limits& limits) {
  std::vector<Fate> fates(arrivals.size());
  sim::Watch watch;
  watch.done = [&](const sim::Watch::Done& done) {
    fates[done.id].latency_ns = done.latency.count();
  };
  const sim::Setup setup = setup_of(arrivals, options, workers, limits);
  const auto outcome = sim::simulate(policy, {}, setup, watch);
  EXPECT_TRUE(outcome.ok());
  return fates;
}

template <Policy P>
void expect_the_same(const sched::CoreOptions& options, const char* what, uint32_t workers,
                     const Limits& limits) {
  SCOPED_TRACE(std::string(P::kName) + ", " + what + ", " + std::to_string(workers) + " workers");
  const std::vector<LiveArrival> arrivals = random_arrivals(kSeed, workers);
  LiveDriver<P> live({}, workers, limits::kSharedCapacity, options,
                     sim::Setup{}.seed ^ sim::kHostStream, limits);
  const std::vector<Fate> lived = live.run(arrivals);
  const std::vector<Fate> fates = simulated(P::kName, arrivals, options, workers, limits);
  uint32_t differ = 0;
  for (uint32_t i = 0; i < kArrivals; ++i) {
    if (lived[i] == fates[i] || ++differ > 3) continue;
    ADD_FAILURE() << "request " << i << ": live " << lived[i].latency_ns << " ns, simulated "
                  << fates[i].latency_ns << " (-1 = refused), seed " << kSeed;
  }
  EXPECT_EQ(differ, 0u) << "of " << kArrivals;
}

void every_policy(const sched::CoreOptions& options, const char* what,
                  const Limits& limits = {}) {
  for_each_policy([&]<class P>(std::type_identity<P>) {
    if constexpr (kServesLive<P>) {
      for (const uint32_t workers : {1u, 2u, 3u, 8u}) {
        expect_the_same<P>(options, what, workers, limits);
      }
    }
  });
}

TEST(SameDecisions, by_feedback) { every_policy({Classify::kFeedback, {}}, "feedback"); }
TEST(SameDecisions, by_age) { every_policy({Classify::kAge, {}}, "age"); }
TEST(SameDecisions, by_what_was_learned) { every_policy({Classify::kLearned, {}}, "learned"); }
TEST(SameDecisions, as_declared) { every_policy({Classify::kDeclared, {}}, "declared"); }

TEST(SameDecisions, with_refusals_by_wait) {
  overload::RefusalSettings refusal_rule;
  refusal_rule.target_delay = Nanos::micros(100);
  refusal_rule.patience = Nanos::micros(500);
  refusal_rule.calm = Nanos::micros(500);
  refusal_rule.calm_idle = Nanos::micros(200);
  refusal_rule.budget = 1;
  every_policy({Classify::kLearned, refusal_rule}, "shedding");
}

// Ends of windows fall between the same requests.
TEST(SameDecisions, with_a_limit_of_the_requests_inside) {
  overload::GradientSettings gradient;
  gradient.update_every = Nanos::micros(500);
  gradient.measure_every = Nanos::millis(3);
  gradient.jitter = 0;
  gradient.measure_requests = 5;
  every_policy({Classify::kAge, {}}, "gradient", gradient);
  overload::Gradient2Settings usual;
  usual.update_every = Nanos::micros(500);
  usual.least = 5;
  usual.most = 12;
  every_policy({Classify::kAge, {}}, "gradient2", usual);
}

TEST(SameDecisions, with_refusals_in_the_queue) {
  overload::CinnamonSettings cinnamon;
  cinnamon.longest_wait = Nanos::micros(200);
  cinnamon.update_every = Nanos::micros(500);
  cinnamon.overload_after = Nanos::millis(1);
  every_policy({Classify::kAge, {}}, "cinnamon", cinnamon);
}

}  // namespace
}  // namespace rubato::testing
