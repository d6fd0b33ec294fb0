// SPDX-License-Identifier: Apache-2.0
//
// Below capacity no request waits longer and longer under DARC: random mixes of 2 to 6 types on 2
// to 64 workers, at up to 90 % load. A type whose queue grows for ever gets too little, by a
// constant share of what it asks: of two of its requests the later one waits that share of the time
// between them longer. Waits that are only long do not grow so; those of a stable queue go up and
// down, but by fewer of its service times than the 10 from which on DARC calls a request late.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "base/prng.h"
#include "policy/darc.h"
#include "policy/testing/seed.h"
#include "sim/testing/runs.h"

namespace rubato::sim {
namespace {

// Waits of one type, by fifths of the run in which its requests came.
using Fifths = std::array<Histogram, 5>;

struct Record {
  Nanos fifth;
  std::vector<Fifths> types;
};

// DARC, watched. `record` outlives the run.
class RecordedDarc : public Darc {
 public:
  struct Config {
    Darc::Config of{};
    Record* record = nullptr;
  };
  explicit RecordedDarc(Config config) : Darc(config.of), record_(config.record) {}

  template <class H>
  Job* next(None& none, WorkerId me, H& host) const {
    Job* const job = Darc::next(none, me, host);
    if (job != nullptr) note(static_cast<SimRequest&>(*job), host.now() - job->arrived);
    return job;
  }

 private:
  void note(const SimRequest& request, Nanos wait) const {
    const int64_t fifth = request.arrived.ns() / record_->fifth.count();
    const auto slot = static_cast<size_t>(std::min<int64_t>(fifth, 4));
    record_->types[request.true_type][slot].record(wait);
  }

  Record* record_;
};

struct RandomCase {
  uint32_t workers = 0;
  double load = 0;
  std::string mix;
};

// Means from 10 us to 1 ms, a third of the types exponential, each with its share of the work.
RandomCase random_case(uint64_t seed) {
  Prng prng(seed);
  RandomCase drawn;
  drawn.workers = 2 + prng.below(63);
  drawn.load = 0.6 + 0.3 * prng.uniform();
  const uint32_t types = 2 + prng.below(5);
  for (uint32_t i = 0; i < types; ++i) {
    const double micros = 10 * std::pow(100, prng.uniform());
    const double work = 0.1 + prng.uniform();
    const char* service = prng.below(3) == 0 ? "exp(%.3fus)" : "%.3fus";
    char time[32], text[64];
    std::snprintf(time, sizeof time, service, micros);
    std::snprintf(text, sizeof text, "%st%u:%s:%.5f", i > 0 ? "," : "", i, time,
                  1000 * work / micros);
    drawn.mix += text;
  }
  return drawn;
}

// The share of what comes by which it is done too slowly, of the type that falls behind most.
double worst_growth(const RandomCase& of, const Darc::Config& config, uint64_t seed) {
  constexpr uint64_t kRequests = 300'000;
  sim::Setup setup = ideal(of.workers, of.mix, of.load, kRequests);
  setup.seed = seed;
  const std::vector<RequestType> types = types_of(setup.workload);
  Record record{Nanos::from_seconds(kRequests / setup.workload.rate / 5),
                std::vector<Fifths>(types.size())};
  run<RecordedDarc>(setup, {config, &record});
  double worst = 0;
  for (size_t t = 0; t < types.size(); ++t) {
    const Fifths& waits = record.types[t];
    const Nanos grown = waits[4].mean() - waits[2].mean();
    if (grown < types[t].service.mean * int64_t{10}) continue;
    worst = std::max(worst, grown.seconds() / (2 * record.fifth.seconds()));
  }
  return worst;
}

constexpr double kGrows = 0.01;

TEST(Starvation, below_capacity_no_type_of_darc_waits_longer_and_longer) {
  const testing::Seeds seeds = testing::test_seeds(24);
  uint32_t literally = 0;
  for (uint64_t seed = seeds.first; seed < seeds.end(); ++seed) {
    const RandomCase of = random_case(seed);
    const double growth = worst_growth(of, {.window = 5'000}, seed);
    const double literal = worst_growth(of, {.window = 5'000, .literal = true}, seed);
    literally += literal > kGrows ? 1 : 0;
    std::printf("RUBATO_SEED=%llu: %u workers, load %.3f, %s: %.4f, literally %.4f\n",
                static_cast<unsigned long long>(seed), of.workers, of.load, of.mix.c_str(), growth,
                literal);
    EXPECT_LT(growth, kGrows) << "RUBATO_SEED=" << seed;
  }
  // The test finds out a rule that does starve.
  if (seeds.count >= 24) {
    EXPECT_GT(literally, 1u);
  }
}

}  // namespace
}  // namespace rubato::sim
