// SPDX-License-Identifier: Apache-2.0
#include "workload/trace_replay.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "workload/source.h"

namespace rubato {
namespace {

// `requests` of type 0 at mean gaps of 1 us, with a wave of ten to the trace, and 1 of 50 long.
std::shared_ptr<const RequestTrace> wavy(int requests) {
  std::vector<RecordedRequest> all;
  Prng prng(3);
  double at_ns = 0;
  for (int i = 0; i < requests; ++i) {
    const double phase = 20 * 3.14159265 * i / requests;
    at_ns += 1000 * sample_exponential(prng) * (1 + 0.8 * std::sin(phase));
    const bool is_long = prng.below(50) == 0;
    all.push_back({.at = Nanos(static_cast<int64_t>(at_ns)),
                   .service = Nanos(is_long ? 20'000 : 500), .type = is_long ? 1u : 0u,
                   .flow = prng.below(64)});
  }
  return RequestTrace::of(all, {"short", "long"}).value();
}

WorkloadSpec spec_of(std::shared_ptr<const RequestTrace> trace) {
  WorkloadSpec spec;
  spec.mixes = {mix_of(*trace, "trace")};
  spec.rate = trace->rate_rps();
  spec.trace = std::move(trace);
  return spec;
}

TEST(TraceReplay, another_rate_stretches_every_gap) {
  const auto trace = wavy(1000);
  TraceReplay plain(trace, trace->rate_rps(), Nanos(), 1);
  TraceReplay half(trace, trace->rate_rps() / 2, Nanos(), 1);
  for (int i = 0; i < 3000; ++i) {
    const RecordedRequest a = plain.next(), b = half.next();
    EXPECT_NEAR(static_cast<double>(b.at.count()), 2.0 * static_cast<double>(a.at.count()), 1);
    EXPECT_EQ(a.service, b.service);
  }
}

TEST(TraceReplay, blocks_keep_the_rate_and_the_shares_and_each_seed_has_its_own) {
  const auto trace = wavy(20'000);
  const Nanos block = TraceReplay::usual_block(*trace);
  EXPECT_GT(block, trace->span() / 21);
  std::set<int64_t> last_arrivals;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    TraceReplay replay(trace, trace->rate_rps(), block, seed);
    constexpr int kRequests = 100'000;
    int longs = 0;
    Nanos before;
    for (int i = 0; i < kRequests; ++i) {
      const RecordedRequest request = replay.next();
      ASSERT_GE(request.at, before);
      before = request.at;
      longs += request.type == 1 ? 1 : 0;
    }
    EXPECT_NEAR(longs, kRequests / 50, 300);
    EXPECT_NEAR(before.seconds(), kRequests / trace->rate_rps(), 0.1 * before.seconds());
    last_arrivals.insert(before.count());
  }
  EXPECT_EQ(last_arrivals.size(), 8u);
}

// Within a block requests follow each other as they did.
TEST(TraceReplay, a_block_is_a_piece_of_the_trace) {
  const auto trace = wavy(5000);
  std::vector<int64_t> times;
  TraceCursor cursor(trace);
  cursor.seek(trace->first());
  while (const auto request = cursor.next()) times.push_back(request->at.count());
  std::set<std::pair<int64_t, int64_t>> gaps;
  for (size_t i = 1; i < times.size(); ++i) gaps.emplace(times[i] - times[i - 1], 0);
  TraceReplay replay(trace, trace->rate_rps(), trace->span() / 10, 7);
  int64_t before = replay.next().at.count();
  int unknown = 0;
  for (int i = 0; i < 20'000; ++i) {
    const int64_t at = replay.next().at.count();
    unknown += gaps.contains({at - before, 0}) ? 0 : 1;
    before = at;
  }
  EXPECT_LE(unknown, 60);  // where blocks, or two laps, meet
}

TEST(TraceReplay, a_refused_request_takes_as_long_as_the_one_of_its_type_before_it) {
  const auto trace = RequestTrace::of({{.at = Nanos(0), .refused = true},
                                       {.at = Nanos(1), .service = Nanos(40)},
                                       {.at = Nanos(2), .refused = true},
                                       {.at = Nanos(3), .service = Nanos(60)}},
                                      {"get"}).value();
  TraceReplay replay(trace, trace->rate_rps(), Nanos(), 1);
  for (const int64_t service : {50, 40, 40, 60, 60, 40}) {
    EXPECT_EQ(replay.next().service, Nanos(service));
  }
}

TEST(TraceReplay, types_that_the_mix_lacks_are_its_others) {
  auto trace = RequestTrace::of({{.at = Nanos(0), .service = Nanos(1)},
                                 {.at = Nanos(9), .service = Nanos(1), .type = 1}},
                                {"get", "rare"}).value();
  WorkloadSpec spec = spec_of(trace);
  EXPECT_TRUE(validate(spec).ok());
  spec.mixes = {Mix("x", {{"get", {.mean = Nanos(1)}, 1}})};
  EXPECT_FALSE(validate(spec).ok());
  spec.mixes = {Mix("x", {{"get", {.mean = Nanos(1)}, 1}, {kOtherTypes, {.mean = Nanos(1)}, 1}})};
  EXPECT_TRUE(validate(spec).ok());
  RequestSource source(spec, 1);
  EXPECT_EQ(source.next().type, 0u);
  EXPECT_EQ(source.next().type, 1u);
}

}  // namespace
}  // namespace rubato
