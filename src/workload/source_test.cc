// SPDX-License-Identifier: Apache-2.0
#include "workload/source.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>

namespace rubato {
namespace {

WorkloadSpec spec_of(const char* mix, double rate = 1e6) {
  WorkloadSpec spec;
  spec.mixes.push_back(std::move(parse_mix(mix).value()));
  spec.rate = rate;
  return spec;
}

std::vector<Offer> offers(const WorkloadSpec& spec, size_t count, uint64_t seed = 1) {
  EXPECT_TRUE(validate(spec).ok());
  RequestSource source(spec, seed);
  std::vector<Offer> all;
  for (size_t i = 0; i < count; ++i) all.push_back(source.next());
  return all;
}

double share(const std::vector<Offer>& all, auto&& holds) {
  const auto n = std::count_if(all.begin(), all.end(), holds);
  return static_cast<double>(n) / static_cast<double>(all.size());
}

TEST(RequestSource, keeps_rate_shares_and_service_times) {
  const auto all = offers(spec_of("extreme-bimodal", 2e6), 400'000);
  EXPECT_NEAR(400'000 / (all.back().at - Instant()).seconds(), 2e6, 2e4);
  EXPECT_NEAR(share(all, [](const Offer& o) { return o.type == 1; }), 0.005, 0.0005);
  for (const Offer& offer : all) {
    ASSERT_EQ(offer.service, offer.type == 0 ? Nanos(500) : Nanos(500'000));
    ASSERT_EQ(offer.seen_type, offer.type);
    ASSERT_LT(offer.flow, 512u);
  }
}

TEST(RequestSource, one_aspect_changes_without_the_others) {
  WorkloadSpec spec = spec_of("high-bimodal");
  const auto before = offers(spec, 1000);
  spec.flows = {.count = 8, .zipf = 1.2};
  spec.misclassification.error_rate = 0.5;
  const auto after = offers(spec, 1000);
  for (size_t i = 0; i < before.size(); ++i) {
    ASSERT_EQ(before[i].at, after[i].at);
    ASSERT_EQ(before[i].type, after[i].type);
  }
}

TEST(RequestSource, the_same_seed_gives_the_same_requests_everywhere) {
  uint64_t digest = 0;
  for (const Offer& o : offers(spec_of("a:exp(10us):3,b:lognormal(5us,1):1"), 10'000, 7)) {
    digest = (digest ^ static_cast<uint64_t>(o.at.ns())) * 0x9e3779b97f4a7c15u;
    digest = (digest ^ static_cast<uint64_t>(o.service.count())) * 0x9e3779b97f4a7c15u;
    digest = (digest ^ (o.flow << 8 | o.type)) * 0x9e3779b97f4a7c15u;
  }
  EXPECT_EQ(digest, 0x66e1480ada7d47a4u);
}

TEST(RequestSource, zipf_flows_follow_their_exponent) {
  WorkloadSpec spec = spec_of("fixed-1");
  spec.flows = {.count = 8, .zipf = 1};
  std::map<uint64_t, double> counts;
  for (const Offer& offer : offers(spec, 200'000)) counts[offer.flow] += 1;
  for (uint64_t flow = 1; flow < 8; ++flow) {
    EXPECT_NEAR(counts[0] / counts[flow], static_cast<double>(flow + 1),
                0.05 * static_cast<double>(flow + 1));
  }
}

TEST(RequestSource, flows_in_turn_are_round_robin) {
  WorkloadSpec spec = spec_of("fixed-1");
  spec.flows = {.count = 3, .in_turn = true};
  std::vector<uint64_t> seen;
  for (const Offer& offer : offers(spec, 7)) seen.push_back(offer.flow);
  EXPECT_EQ(seen, (std::vector<uint64_t>{0, 1, 2, 0, 1, 2, 0}));
}

// As in Persephone 5.5: the two types change places, then a third comes and the rate falls.
TEST(RequestSource, a_phase_changes_mix_and_rate_from_its_time_on) {
  WorkloadSpec spec = spec_of("a:1us:50,b:100us:50", 1e6);
  spec.phases.push_back(std::move(parse_phase("10ms:a:100us:50,b:1us:50").value()));
  spec.phases.push_back(std::move(parse_phase("20ms@100000:c:7us:1").value()));
  ASSERT_EQ(types_of(spec).size(), 3u);
  std::array<int, 3> counts{};
  for (const Offer& offer : offers(spec, 21'000)) {
    const int phase = offer.at < Instant(10'000'000) ? 0 : offer.at < Instant(20'000'000) ? 1 : 2;
    ++counts[static_cast<size_t>(phase)];
    const Nanos of_a[] = {Nanos::micros(1), Nanos::micros(100)};
    if (phase == 2) {
      ASSERT_EQ(offer.type, 2u);
    } else {
      ASSERT_EQ(offer.service, of_a[offer.type == 0 ? phase : 1 - phase]);
    }
  }
  EXPECT_NEAR(counts[0], 10'000, 400);
  EXPECT_NEAR(counts[1], 10'000, 400);
}

TEST(RequestSource, a_phase_without_a_rate_keeps_the_load) {
  WorkloadSpec spec = spec_of("a:1us:50,b:9us:50", 1e6);
  spec.phases.push_back(std::move(parse_phase("10ms:a:10us:1").value()));
  const auto all = offers(spec, 20'000);
  const auto early = [](const Offer& o) { return o.at < Instant(10'000'000); };
  const double in_first = 20'000 * share(all, early);
  EXPECT_NEAR(in_first, 10'000, 400);
  const double rest_s = (all.back().at - Instant(10'000'000)).seconds();
  EXPECT_NEAR((20'000 - in_first) / rest_s, 5e5, 2e4);
}

TEST(RequestSource, what_is_out_of_range_is_refused) {
  const auto refused = [](auto&& change) {
    WorkloadSpec spec = spec_of("get:1us:1,scan:9us:1");
    EXPECT_TRUE(validate(spec).ok());
    change(spec);
    return !validate(spec).ok();
  };
  EXPECT_TRUE(refused([](WorkloadSpec& s) { s.mixes.clear(); }));
  EXPECT_TRUE(refused([](WorkloadSpec& s) { s.rate = 0; }));
  EXPECT_TRUE(refused([](WorkloadSpec& s) { s.rate = 2e10; }));
  EXPECT_TRUE(refused([](WorkloadSpec& s) { s.flows.count = 0; }));
  EXPECT_TRUE(refused([](WorkloadSpec& s) { s.flows = {.zipf = 1, .in_turn = true}; }));
  EXPECT_TRUE(refused([](WorkloadSpec& s) { s.misclassification.error_rate = 1.5; }));
  EXPECT_TRUE(refused([](WorkloadSpec& s) { s.arrivals.shape = ArrivalShape::kTrace; }));
  EXPECT_TRUE(refused([](WorkloadSpec& s) {
    s.arrivals = {.shape = ArrivalShape::kBursty, .parameter = 11};
  }));
  EXPECT_TRUE(refused([](WorkloadSpec& s) { s.phases = {Phase{Nanos(), s.mixes[0]}}; }));
  EXPECT_TRUE(refused([](WorkloadSpec& s) { s.phases = {Phase{Nanos(1), s.mixes[0], 2e10}}; }));
  EXPECT_TRUE(refused([](WorkloadSpec& s) {
    s.trace = RequestTrace::of({{.at = Nanos(), .service = Nanos(1)},
                                {.at = Nanos(1), .service = Nanos(1)}}, {"of no mix"}).value();
  }));
}

// Draws of different aspects, and those of a consumer that seeds its own from the same seed, must
// not go together: else long requests would find their way to certain workers.
TEST(RequestSource, aspects_do_not_go_together) {
  WorkloadSpec spec = spec_of("high-bimodal");
  spec.flows.count = 2;
  spec.misclassification.random = true;
  for (uint64_t seed : {0u, 1u, 2u, 3u}) {
    const auto all = offers(spec, 100'000, seed);
    Prng others(seed);
    const auto even = [](auto&& agree) { EXPECT_NEAR(agree, 0.5, 0.008); };
    even(share(all, [](const Offer& o) { return o.type == o.flow; }));
    even(share(all, [](const Offer& o) { return o.type == o.seen_type; }));
    even(share(all, [](const Offer& o) { return o.flow == o.seen_type; }));
    even(share(all, [&others](const Offer& o) { return o.type == others.below(2); }));
  }
}

TEST(RequestSource, classifiers_err_as_often_as_told) {
  WorkloadSpec spec = spec_of("tpcc");
  spec.misclassification.error_rate = 0.1;
  const auto wrong = [](const Offer& o) { return o.seen_type != o.type; };
  EXPECT_NEAR(share(offers(spec, 100'000), wrong), 0.1, 0.005);
  spec.misclassification = {.random = true};
  EXPECT_NEAR(share(offers(spec, 100'000), wrong), 0.8, 0.01);
}

TEST(RequestSource, a_recording_is_repeated_exactly) {
  WorkloadSpec spec = spec_of("get:1us:1,scan:9us:1");
  const char* text = "# at,service,type,flow\n5,1.5,get,7\n6,20,scan,1\n\n9,2,get,7\n";
  spec.trace = parse_recording(text, spec.mixes[0]).value();
  spec.rate = spec.trace->rate_rps();
  const auto all = offers(spec, 5);
  EXPECT_EQ(all[0].at, Instant());
  EXPECT_EQ(all[1].at, Instant(1000));
  EXPECT_EQ(all[1].service, Nanos::micros(20));
  EXPECT_EQ(all[1].type, 1u);
  EXPECT_EQ(all[2].flow, 7u);
  EXPECT_EQ(all[3].at, Instant(6000));  // 4 us and a mean gap of 2 us
  EXPECT_EQ(all[4].service, Nanos::micros(20));
  EXPECT_DOUBLE_EQ(mean_rate(spec), 5e5);
  spec.rate = 1e6;
  EXPECT_EQ(offers(spec, 4)[3].at, Instant(3000));
}

TEST(RequestSource, texts_that_do_not_fit_are_refused_in_one_line) {
  EXPECT_EQ(parse_flows("8:zipf=0.99")->zipf, 0.99);
  EXPECT_TRUE(parse_flows("8:in-turn")->in_turn);
  for (const char* bad : {"", "0", "1000001", "8:", "8:zipf=", "8:zipf=11", "x", "8:zipf=-1"}) {
    EXPECT_FALSE(parse_flows(bad).ok()) << bad;
  }
  EXPECT_EQ(parse_phase("2:fixed-1")->from, Nanos::seconds(2));
  EXPECT_EQ(parse_phase("2ms@5:fixed-1")->rate, 5);
  for (const char* bad : {"", "fixed-1", "0:fixed-1", "1s:", "1s@0:fixed-1", "1s@x:fixed-1"}) {
    EXPECT_FALSE(parse_phase(bad).ok()) << bad;
  }
  EXPECT_TRUE(parse_misclassification("random")->random);
  for (const char* bad : {"", "1.5", "-1", "often"}) {
    EXPECT_FALSE(parse_misclassification(bad).ok()) << bad;
  }
  const Mix mix = parse_mix("fixed-1").value();
  for (const char* bad : {"", "1,1,all,0", "1,1,all,0\n0,1,all,0", "1,1,nobody,0\n2,1,all,0",
                          "1,0,all,0\n2,1,all,0", "1,1,all\n2,1,all", "1,1,all,0,9\n2,1,all,0"}) {
    EXPECT_FALSE(parse_recording(bad, mix).ok()) << bad;
  }
  EXPECT_EQ(parse_recording("0,1,all,0\n1,1,nobody,0", mix).error(),
            "recording: line 2 is of type 'nobody', which the workload has not");
  WorkloadSpec spec = spec_of("fixed-1", 0);
  EXPECT_FALSE(validate(spec).ok());
}

}  // namespace
}  // namespace rubato
