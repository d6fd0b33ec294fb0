// SPDX-License-Identifier: Apache-2.0
#include "metrics/histogram_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "metrics/testing/drawn.h"

namespace rubato {
namespace {

using Json = nlohmann::ordered_json;

using testing::drawn;

TEST(HistogramJson, is_read_as_it_was_written) {
  for (const int values : {0, 1, 1000}) {
    const Histogram histogram = drawn(7, values);
    const Json json = histogram_json(histogram);
    const Histogram again = parse_histogram(Json::parse(json.dump())).value();
    EXPECT_EQ(histogram_json(again), json);
    EXPECT_EQ(again.count(), histogram.count());
    for (const double percent : {0.0, 50.0, 99.99, 100.0}) {
      EXPECT_EQ(again.percentile(percent), histogram.percentile(percent));
    }
  }
}

TEST(HistogramJson, shards_that_are_merged_are_as_one_run) {
  Histogram all, merged;
  for (uint64_t shard = 0; shard < 5; ++shard) {
    const Histogram part = drawn(shard, 300);
    all.merge(part);
    merged.merge(parse_histogram(histogram_json(part)).value());
  }
  EXPECT_EQ(histogram_json(merged), histogram_json(all));
}

TEST(HistogramJson, what_is_no_histogram_is_refused) {
  const Json good = histogram_json(drawn(1, 10));
  const auto refused = [&good](const char* key, const Json& value) {
    Json json = good;
    json[key] = value;
    return !parse_histogram(json).ok();
  };
  EXPECT_TRUE(parse_histogram(good).ok());
  EXPECT_FALSE(parse_histogram(Json(3)).ok());
  EXPECT_TRUE(refused("layout", "other"));
  EXPECT_TRUE(refused("min", -1));
  EXPECT_TRUE(refused("max", 5e18));
  EXPECT_TRUE(refused("sum", "x"));
  for (const char* counts : {"1", "1:", ":1", "1:0", "2:1 1:1", "99999:1", "1:1,2:1", "1:1"}) {
    EXPECT_TRUE(refused("counts", counts)) << counts;
  }
}

}  // namespace
}  // namespace rubato
