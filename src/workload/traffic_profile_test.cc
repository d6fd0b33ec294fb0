// SPDX-License-Identifier: Apache-2.0
#include "workload/traffic_profile.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

namespace rubato {
namespace {

TrafficProfile sample() {
  TrafficProfile profile;
  profile.version = "0.1";
  profile.policy = "synergy";
  profile.workers = 2;
  profile.utilization = 0.25;
  profile.span_s = 12.5;
  profile.refused = 3;
  profile.control = 4;
  profile.flows = 7;
  profile.arrivals = {.rate_rps = 50'000, .allan = {1, 1.5, 2.25}};
  profile.late = 5;
  profile.gaps = 6;
  profile.types.push_back({"get", 300, {{Nanos(1000), Nanos(1016), 200},
                                        {Nanos(1016), Nanos(1032), 100}}, {1, 2, 3, 4, 5}});
  profile.types.push_back({"keys \"*\"", 100, {{Nanos(500'000), Nanos(504'000), 100}}, {}});
  return profile;
}

TEST(TrafficProfile, is_read_as_it_was_written) {
  const std::string text = to_json(sample());
  auto read = parse_traffic_profile(text);
  ASSERT_TRUE(read.ok()) << read.error() << '\n' << text;
  EXPECT_EQ(to_json(read.value()), text);
  EXPECT_EQ(read->types[1].name, "keys \"*\"");
  EXPECT_EQ(read->types[0].service[1].high, Nanos(1032));
  EXPECT_EQ(read->types[0].latency.p999_us, 4);
  EXPECT_EQ(read->arrivals.allan, sample().arrivals.allan);
  EXPECT_EQ(read->workers, 2u);
  EXPECT_EQ(read->utilization, 0.25);
  EXPECT_EQ(read->span_s, 12.5);
  EXPECT_EQ(read->refused + read->control + read->flows + read->late + read->gaps, 25u);
  EXPECT_LT(std::count(text.begin(), text.end(), '\n'), 12);
}

TEST(TrafficProfile, becomes_a_workload_with_its_types_rate_and_flows) {
  WorkloadSpec workload;
  use_profile(sample(), "profile:x", workload);
  ASSERT_TRUE(validate(workload).ok());
  EXPECT_EQ(mean_rate(workload), 50'000);
  EXPECT_EQ(workload.flows.count, 7u);
  EXPECT_EQ(types_of(workload)[1].name, "keys \"*\"");
  EXPECT_NEAR(mean_service_ns(workload), 0.75 * 1012.8 + 0.25 * 501'999.5, 2);
  RequestSource source(workload, 1);
  std::map<uint32_t, int> counts;
  Offer offer;
  int low = 0;
  for (int i = 0; i < 200'000; ++i) {
    offer = source.next();
    ++counts[offer.type];
    const Nanos least = offer.type == 0 ? Nanos(1000) : Nanos(500'000);
    const Nanos beyond = offer.type == 0 ? Nanos(1032) : Nanos(504'000);
    ASSERT_TRUE(offer.service >= least && offer.service < beyond);
    low += offer.service < Nanos(1016) ? 1 : 0;
  }
  EXPECT_NEAR(counts[0] / 200'000.0, 0.75, 0.01);
  EXPECT_NEAR(low / static_cast<double>(counts[0]), 2.0 / 3, 0.01);
  EXPECT_NEAR(200'000 / (offer.at - Instant()).seconds(), 50'000, 1'000);
}

TEST(TrafficProfile, by_hand_needs_little) {
  auto read = parse_traffic_profile(
      R"({"schema": "rubato.profile/1", "arrivals": {"rate_rps": 10},
          "types": [{"name": "all", "count": 1, "service_ns": [[5000, 5001, 1]]}]})");
  ASSERT_TRUE(read.ok()) << read.error();
  EXPECT_TRUE(read->arrivals.allan.empty());
  EXPECT_EQ(read->flows, 0u);
}

// Replaces one piece of a good file, and expects the error to begin so.
void expect_refused(const std::string& piece, const std::string& by, const std::string& error) {
  std::string text = to_json(sample());
  const size_t at = text.find(piece);
  ASSERT_NE(at, std::string::npos) << piece;
  text.replace(at, piece.size(), by);
  auto read = parse_traffic_profile(text);
  ASSERT_FALSE(read.ok()) << text;
  EXPECT_EQ(read.error().substr(0, error.size()), error);
  EXPECT_EQ(read.error().find('\n'), std::string::npos);
}

TEST(TrafficProfile, what_does_not_fit_is_named_with_what_would) {
  expect_refused("profile/1", "profile/2", "schema: takes \"rubato.profile/1\"");
  expect_refused("\"schema\"", "\"x\"", "schema: takes \"rubato.profile/1\"; it is missing");
  expect_refused("\"types\"", "\"kinds\"",
                 "types: takes an array of 1 to 64 request types; it is missing");
  expect_refused("50000.0", "0", "arrivals.rate_rps: takes requests per second");
  expect_refused("50000.0", "2e10", "arrivals.rate_rps: takes a number of 0 to 10000000000.0");
  expect_refused("32768", "0", "arrivals.slot_ns: takes a whole number of 1 to 1000000000");
  expect_refused("2.25", "-1", "arrivals.allan[2]: takes a number of 0 to 1000000000000.0");
  expect_refused("1.5", "[]", "arrivals.allan[1]: takes a number");
  expect_refused("\"late\": 5", "\"late\": -5", "arrivals.late: takes a whole number");
  expect_refused("\"flows\": 7", "\"flows\": 0", "flows: takes a whole number of 1 to 1000000");
  expect_refused("\"span_s\": 12.5", "\"span_s\": \"x\"", "span_s: takes a number");
  expect_refused("\"get\"", "\"\"", "types[0].name: takes a text of 1 to 200 bytes");
  expect_refused("\"get\"", "7", "types[0].name: takes a text");
  expect_refused("keys \\\"*\\\"", "get", "types[1].name: takes a text of 1 to 200 bytes that no");
  expect_refused("\"count\": 300", "\"count\": 0", "types[0].count: takes a whole number of 1 to");
  expect_refused("\"count\": 300", "\"count\": 3.5", "types[0].count: takes a whole number");
  expect_refused("[1016, 1032, 100]", "[1016, 1032]",
                 "types[0].service_ns[1]: takes [low, high, count], whole numbers");
  expect_refused("[1016, 1032, 100]", "[1000, 1032, 100]", "types[0].service_ns[1]: takes [low");
  expect_refused("[500000, 504000, 100]", "[9, 9, 100]", "types[1].service_ns[0]: takes [low");
  expect_refused("[500000, 504000, 100]", "[500000, 504000, 0]",
                 "types[1].service_ns: takes buckets of which one has a count above 0");
  expect_refused("[[500000, 504000, 100]]", "[]", "types[1].service_ns: takes an array of 1 to");
  expect_refused("\"mean\": 1.0", "\"mean\": null", "types[0].latency_us.mean: takes a number");
  expect_refused("{\"version\"", "[] , \"x\": {\"version\"", "server: takes an object");
  expect_refused("\"arrivals\": {", "\"arrivals\": {{", "line 4, column 15 is not JSON");
}

TEST(TrafficProfile, bytes_that_are_no_object_are_refused) {
  EXPECT_EQ(parse_traffic_profile("").error(), "line 1, column 1 is not JSON");
  EXPECT_EQ(parse_traffic_profile("[1]").error(), "the file: takes an object");
  EXPECT_EQ(parse_traffic_profile("{\"schema\": 1e999}").error(),
            "the file: takes JSON with numbers up to 1e308");
  EXPECT_FALSE(parse_traffic_profile(std::string(100'000, '[')).ok());
}

}  // namespace
}  // namespace rubato
