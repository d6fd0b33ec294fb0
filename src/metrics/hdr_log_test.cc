// SPDX-License-Identifier: Apache-2.0
#include "metrics/hdr_log.h"

#include <gtest/gtest.h>

#include "metrics/testing/drawn.h"

namespace rubato {
namespace {

// What the package hdrhistogram 0.10.8 (PyPI) writes for HdrHistogram(1, 3.6e12, 3) that recorded
// 1, 100, 255, 256, 5000 twice, 123456, 99999999, 2^34 + 12345, and 1000 to 1999 once each.
constexpr const char* kOfAnother =
    "HISTFAAAAEB4nJNpmSzMwMDCAAXMUJoRyHQz2LGAwf4DVIDpMCPTZiYmprPcTKNgFIyCYQ8Wi7Cc9mK6OpORaXIFEwC0"
    "LBLJ";

using testing::drawn;

TEST(HdrLog, is_read_as_it_was_written_to_a_bucket) {
  std::vector<HdrInterval> written = {{"get", 0, 10, drawn(1, 5000)}, {"", 10, 2.5, drawn(2, 1)},
                                      {"none", 12.5, 1, Histogram()}};
  const auto read = parse_hdr_log(hdr_log(written)).value();
  ASSERT_EQ(read.size(), 3u);
  EXPECT_EQ(read[0].tag, "get");
  EXPECT_EQ(read[1].start_s, 10);
  EXPECT_EQ(read[1].length_s, 2.5);
  for (size_t i = 0; i < read.size(); ++i) {
    std::vector<uint64_t> counts[2];
    written[i].histogram.for_each_bucket([&](Nanos low, Nanos, uint64_t count) {
      counts[0].insert(counts[0].end(), {static_cast<uint64_t>(low.count()), count});
    });
    read[i].histogram.for_each_bucket([&](Nanos low, Nanos, uint64_t count) {
      counts[1].insert(counts[1].end(), {static_cast<uint64_t>(low.count()), count});
    });
    EXPECT_EQ(counts[0], counts[1]);
  }
}

TEST(HdrLog, of_another_program_is_read) {
  const std::string log = "#[Histogram log format version 1.3]\n\"StartTimestamp\",...\n"
                          "Tag=x,0.127,1.007,2.769," + std::string(kOfAnother) + "\r\n";
  const auto read = parse_hdr_log(log).value();
  ASSERT_EQ(read.size(), 1u);
  EXPECT_EQ(read[0].tag, "x");
  const Histogram& histogram = read[0].histogram;
  EXPECT_EQ(histogram.count(), 1009u);
  EXPECT_NEAR(static_cast<double>(histogram.percentile(50).count()), 1500, 15);
  EXPECT_NEAR(static_cast<double>(histogram.max().count()), 17'179'881'529.0, 17e7);
  EXPECT_EQ(histogram.count_at_most(Nanos(1)), 1u);
}

TEST(HdrLog, tags_lose_what_would_end_them) {
  const auto read = parse_hdr_log(hdr_log({{"a b,c=\"d\"", 0, 1, drawn(3, 3)}})).value();
  EXPECT_EQ(read[0].tag, "a_b_c__d_");
}

TEST(HdrLog, what_is_no_log_is_refused_by_line) {
  const std::string good = hdr_log({{"", 0, 1, drawn(4, 100)}});
  EXPECT_TRUE(parse_hdr_log(good).ok());
  for (const std::string& bad :
       {good + "x", good + "0,1,2,", good + "0,1,2,HIST", good + "0,1,HISTFAAAAEB4",
        good + "\x01", good + "nan,1,2," + good.substr(good.rfind(',') + 1),
        good + "0," + std::string(120, '5') + ",2," + good.substr(good.rfind(',') + 1)}) {
    auto read = parse_hdr_log(bad);
    ASSERT_FALSE(read.ok());
    EXPECT_EQ(read.error().find("hdr: line 5 "), 0u) << read.error();
  }
  for (size_t i = good.rfind(',') + 1; i + 1 < good.size(); i += 3) {
    std::string changed = good;
    changed[i] = changed[i] == 'A' ? 'B' : 'A';
    EXPECT_FALSE(parse_hdr_log(changed).ok()) << i;  // the checksum of what is deflated tells
  }
}

}  // namespace
}  // namespace rubato
