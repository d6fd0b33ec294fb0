// SPDX-License-Identifier: Apache-2.0
#include "runtime/published_job.h"

#include <gtest/gtest.h>

namespace rubato {
namespace {

constexpr Instant kNow(1'000'000);

Job filled() {
  Job job;
  job.arrived = Instant(1);
  job.started = Instant(2);
  job.attained = Nanos(3);
  job.size_hint = Nanos(4);
  job.deadline = Instant(5);
  job.policy_word = UINT64_MAX;
  job.flow = 7;
  job.type = 8;
  job.preemptions = 9;
  job.moves = 10;
  job.job_class = JobClass::kLong;
  job.priority = 11;
  job.group = kControlGroup;
  return job;
}

TEST(PublishedJob, every_field_is_shown) {
  PublishedJob published;
  published.store(kNow, filled(), Nanos(3));
  EXPECT_EQ(published.load(kNow), filled());
}

TEST(PublishedJob, service_goes_on_after_it_was_published) {
  PublishedJob published;
  published.store(kNow, filled(), Nanos(3));
  EXPECT_EQ(published.load(kNow + Nanos(40)).attained, Nanos(43));
}

TEST(PublishedJob, nothing_is_left_of_the_job_before) {
  PublishedJob published;
  published.store(kNow, filled(), Nanos(3));
  published.store(kNow, Job(), Nanos());
  EXPECT_EQ(published.load(kNow), Job());
}

}  // namespace
}  // namespace rubato
