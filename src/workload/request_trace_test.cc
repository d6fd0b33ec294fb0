// SPDX-License-Identifier: Apache-2.0
#include "workload/request_trace.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/prng.h"

namespace rubato {
namespace {

using Requests = std::vector<RecordedRequest>;

RecordedRequest at(int64_t ns, int64_t service_ns = 10, uint32_t type = 0) {
  return {.at = Nanos(ns), .service = Nanos(service_ns), .type = type};
}

std::vector<int64_t> arrivals_from(const std::shared_ptr<const RequestTrace>& trace, int64_t from) {
  TraceCursor cursor(trace);
  cursor.seek(Nanos(from));
  std::vector<int64_t> times;
  while (const auto request = cursor.next()) times.push_back(request->at.count());
  return times;
}

// Requests as a server ends them: a long one is written long after its arrival.
std::string file_of_ends(int requests, Prng& prng, std::vector<int64_t>& sorted) {
  std::string file = TraceEncoder::begin({"short", "long"});
  TraceEncoder encoder;
  for (int i = 0; i < requests; ++i) {
    const bool is_long = prng.below(10) == 0;
    const int64_t end = int64_t{i} * 100 + 100'000;
    const int64_t arrival = end - (is_long ? 1 + prng.below(100'000) : 1 + prng.below(500));
    encoder.add(at(arrival, is_long ? 50'000 : 100, is_long ? 1 : 0));
    sorted.push_back(arrival);
    if (encoder.waiting() == 50) file += encoder.take();
  }
  std::sort(sorted.begin(), sorted.end());
  return file + encoder.take();
}

TEST(RequestTrace, what_was_written_is_read) {
  const Requests all = {{.at = Nanos(5), .service = Nanos(1'000'000'007), .type = 1, .flow = ~0ull,
                         .latency = Nanos(2'000'000'000)},
                        {.at = Nanos(5), .type = 0, .flow = 3, .refused = true},
                        at(900, 1)};
  const auto trace = RequestTrace::of(all, {"get", "scan"}).value();
  EXPECT_EQ(trace->requests(), 3u);
  EXPECT_EQ(trace->refused(), 1u);
  EXPECT_EQ(trace->types()[0].served, 1u);
  EXPECT_EQ(trace->types()[0].refused, 1u);
  EXPECT_EQ(trace->types()[1].name, "scan");
  EXPECT_DOUBLE_EQ(trace->mean_service_ns(), 1'000'000'008 / 2.0);
  TraceCursor cursor(trace);
  cursor.seek(trace->first());
  const auto first = cursor.next();
  EXPECT_EQ(first->service, Nanos(1'000'000'007));
  EXPECT_EQ(first->flow, ~0ull);
  EXPECT_EQ(first->latency, Nanos(2'000'000'000));
  EXPECT_TRUE(cursor.next()->refused);
  EXPECT_EQ(cursor.next()->at, Nanos(900));
  EXPECT_FALSE(cursor.next());
}

TEST(RequestTrace, requests_come_by_their_arrival_though_they_were_written_at_their_end) {
  Prng prng(1);
  std::vector<int64_t> sorted;
  const std::string file = file_of_ends(5000, prng, sorted);
  const auto trace = RequestTrace::parse(file).value();
  EXPECT_EQ(arrivals_from(trace, 0), sorted);
  for (int i = 0; i < 50; ++i) {
    const int64_t from = prng.below(700'000);
    const auto rest = std::lower_bound(sorted.begin(), sorted.end(), from);
    EXPECT_EQ(arrivals_from(trace, from), std::vector<int64_t>(rest, sorted.end())) << from;
  }
}

TEST(RequestTrace, a_request_takes_some_ten_bytes) {
  TraceEncoder encoder;
  Prng prng(1);
  for (int i = 0; i < 10'000; ++i) {
    encoder.add({.at = Nanos(int64_t{i} * 5000), .service = Nanos(1000 + prng.below(9000)),
                 .flow = prng.below(500), .latency = Nanos(20'000)});
  }
  EXPECT_LT(encoder.take().size(), 110'000u);
}

TEST(RequestTrace, a_file_that_is_still_written_counts_as_far_as_it_is_whole) {
  Prng prng(2);
  std::vector<int64_t> sorted;
  const std::string file = file_of_ends(500, prng, sorted) + TraceEncoder::dropped(7);
  const auto whole = RequestTrace::parse(file).value();
  EXPECT_EQ(whole->dropped(), 7u);
  EXPECT_FALSE(whole->cut());
  const auto part = RequestTrace::parse(std::string_view(file).substr(0, file.size() - 20)).value();
  EXPECT_EQ(part->requests(), 450u);
  EXPECT_TRUE(part->cut());
}

TEST(RequestTrace, bytes_that_are_no_trace_are_refused_by_place) {
  const std::string good = TraceEncoder::begin({"get"});
  TraceEncoder encoder;
  encoder.add(at(1));
  const std::string file = good + encoder.take();
  const auto error_of = [](std::string_view bytes) {
    const auto parsed = RequestTrace::parse(bytes);
    return parsed.ok() ? "" : parsed.error();
  };
  EXPECT_EQ(error_of(file), "");
  EXPECT_EQ(error_of("RUBATRC2"), "trace: byte 0: a trace starts with RUBATRC1");
  EXPECT_EQ(error_of(good), "trace: has no served request");
  std::string flipped = file;
  flipped.back() = static_cast<char>(flipped.back() ^ 1);
  EXPECT_NE(error_of(flipped).find("the checksum"), std::string::npos);
  EXPECT_NE(error_of(good + good.substr(8)).find("one list of types"), std::string::npos);
  encoder.add(at(1, 10, 1));
  EXPECT_NE(error_of(good + encoder.take()).find("request 1 of the chunk"), std::string::npos);
}

TEST(RequestTrace, the_number_of_flows_is_counted_within_a_few_per_cent) {
  for (const uint64_t flows : {1u, 50u, 20'000u}) {
    Requests all;
    for (uint64_t i = 0; i < 2 * flows; ++i) all.push_back(at(static_cast<int64_t>(i)));
    for (uint64_t i = 0; i < 2 * flows; ++i) all[i].flow = (i % flows) << 20;
    const auto counted = static_cast<double>(RequestTrace::of(all, {"get"}).value()->flows());
    EXPECT_NEAR(counted, static_cast<double>(flows), 0.02 * static_cast<double>(flows));
  }
}

TEST(RequestTrace, its_mix_has_the_types_that_were_served_and_the_rarest_together) {
  Requests all;
  std::vector<std::string> names;
  for (uint32_t type = 0; type < 1100; ++type) {
    names.push_back("t" + std::to_string(type));
    if (type == 5) continue;
    for (uint32_t i = 0; i <= type / 50; ++i) all.push_back(at(type + 1, 100 + type, type));
  }
  const auto trace = RequestTrace::of(all, names).value();
  const Mix mix = mix_of(*trace, "trace");
  ASSERT_EQ(mix.types().size(), Mix::kMaxTypes);
  EXPECT_EQ(mix.types()[0].name, "t1050");
  EXPECT_EQ(mix.types()[0].service.mean, Nanos(1150));
  EXPECT_EQ(mix.types().back().name, kOtherTypes);
  EXPECT_NEAR(mix.mean_service_ns(), trace->mean_service_ns(), 0.5);
}

TEST(RequestTrace, its_mix_has_as_many_types_as_a_workload) {
  Requests all;
  std::vector<std::string> names;
  for (uint32_t type = 0; type < Mix::kMaxTypes; ++type) {
    names.push_back("t" + std::to_string(type));
    all.push_back(at(type + 1, 100 + type, type));
  }
  const Mix mix = mix_of(*RequestTrace::of(all, names).value(), "trace");
  ASSERT_EQ(mix.types().size(), names.size());
  for (size_t i = 0; i < names.size(); ++i) EXPECT_EQ(mix.types()[i].name, names[i]);
}

TEST(RequestTrace, types_of_one_name_are_one_type_of_its_mix) {
  const Requests all = {at(1, 100, 0), at(2, 300, 1), at(3, 700, 2)};
  const Mix mix = mix_of(*RequestTrace::of(all, {"get", "scan", "get"}).value(), "trace");
  ASSERT_EQ(mix.types().size(), 2u);
  EXPECT_EQ(mix.types()[0].name, "get");
  EXPECT_EQ(mix.types()[0].service.mean, Nanos(400));
  EXPECT_NEAR(mix.types()[0].share, 2.0 / 3, 1e-9);
}

}  // namespace
}  // namespace rubato
