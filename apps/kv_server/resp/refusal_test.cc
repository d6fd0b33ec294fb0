// SPDX-License-Identifier: Apache-2.0
#include "kv_server/resp/refusal.h"

#include <gtest/gtest.h>

namespace rubato::kv {
namespace {

std::string text(OverloadReply code, const Request& request) {
  ReplyBuffer out;
  append_refusal(out, code, request);
  return std::string(out.unsent());
}

TEST(Refusal, names_class_time_and_reason) {
  Request request;
  request.refusal = Refusal::kDelay;
  request.retry_after = Nanos::micros(1001);
  EXPECT_EQ(text(OverloadReply::kOverloaded, request),
            "-OVERLOADED short retry-after-ms 2 it has waited too long\r\n");
  request.job_class = JobClass::kLong;
  request.refusal = Refusal::kShare;
  EXPECT_EQ(text(OverloadReply::kThrottled, request),
            "-THROTTLED long retry-after-ms 2 its connection has had its turn\r\n");
}

TEST(Refusal, never_asks_to_come_back_at_once) {
  Request request;
  EXPECT_EQ(text(OverloadReply::kOverloaded, request),
            "-OVERLOADED short retry-after-ms 1 the queues are full\r\n");
}

TEST(Refusal, of_the_longest_time_fits) {
  Request request;
  request.job_class = JobClass::kLong;
  request.refusal = Refusal::kShare;
  request.retry_after = Nanos::max() - Nanos::millis(1);
  EXPECT_EQ(text(OverloadReply::kOverloaded, request),
            "-OVERLOADED long retry-after-ms 9223372036854 its connection has had its turn\r\n");
}

}  // namespace
}  // namespace rubato::kv
