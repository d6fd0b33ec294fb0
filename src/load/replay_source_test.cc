// SPDX-License-Identifier: Apache-2.0
#include "load/replay_source.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace rubato::load {
namespace {

std::shared_ptr<const RequestTrace> recording() {
  const std::vector<RecordedRequest> requests = {
      {.at = Nanos(100), .service = Nanos(5), .type = 0},
      {.at = Nanos(200), .service = Nanos(700), .type = 1},
      {.at = Nanos(450), .service = Nanos(6), .type = 0}};
  return RequestTrace::of(requests, {"GET", "range"}).value();
}

std::string next(RequestSource& source, uint32_t& type) {
  Prng prng(1);
  std::string bytes;
  type = source.draw(prng, bytes).type;
  return bytes;
}

TEST(ReplaySource, service_times_and_types_come_in_the_order_of_the_trace_and_again) {
  const auto trace = recording();
  auto source = make_replay_source(trace, make_rpc_spin_source(mix_of(*trace, "trace:x"))).value();
  std::string all;
  uint32_t type = 0;
  for (int i = 0; i < 5; ++i) {
    all += next(*source, type) + ",";
    all += source->types()[type].name + " ";
  }
  EXPECT_EQ(all, "5,GET 700,range 6,GET 5,GET 700,range ");
  for (const SourceType& one : source->types()) {
    EXPECT_DOUBLE_EQ(one.share, one.name == "GET" ? 2.0 / 3 : 1.0 / 3);
  }
}

TEST(ReplaySource, types_of_a_store_are_what_the_mix_has_for_them) {
  auto mix = make_kv_source("range/7:1,get:1,ping:1", KvShape{}, "");
  auto source = make_replay_source(recording(), std::move(*mix)).value();
  uint32_t type = 0;
  EXPECT_NE(next(*source, type).find("GET"), std::string::npos);
  EXPECT_EQ(type, 1u);
  EXPECT_NE(next(*source, type).find("RANGE"), std::string::npos);
  EXPECT_EQ(type, 0u);
  EXPECT_EQ(source->types()[2].share, 0);
}

TEST(ReplaySource, the_nearest_name_is_taken_and_two_as_near_are_refused) {
  uint32_t type = 0;
  auto exact = make_kv_source("range/7:1,get:1,GET/k:1,range:1", KvShape{}, "");
  auto source = make_replay_source(recording(), std::move(*exact)).value();
  next(*source, type);
  EXPECT_EQ(source->types()[type].name, "get");
  next(*source, type);
  EXPECT_EQ(source->types()[type].name, "range");
  auto mix = make_kv_source("range/7:1,range/8:1,get:1", KvShape{}, "");
  const auto refused = make_replay_source(recording(), std::move(*mix));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error(),
            "type 'range' of the trace is 'range/7' or 'range/8' of the mix: leave one");
}

TEST(ReplaySource, a_type_that_the_mix_lacks_is_named) {
  auto mix = make_kv_source("get:1", KvShape{}, "");
  const auto source = make_replay_source(recording(), std::move(*mix));
  ASSERT_FALSE(source.ok());
  EXPECT_EQ(source.error(),
            "the trace has requests of type 'range', for which nothing is in the mix");
}

TEST(ReplaySource, arrivals_are_those_of_the_trace) {
  EXPECT_EQ(arrival_times(recording()), (std::vector{Nanos(100), Nanos(200), Nanos(450)}));
}

}  // namespace
}  // namespace rubato::load
