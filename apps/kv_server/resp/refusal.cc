// SPDX-License-Identifier: Apache-2.0
#include "kv_server/resp/refusal.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "kv_server/text/number.h"

namespace rubato::kv {
namespace {

constexpr size_t kMaxLineBytes = 128;

std::string_view reason(Refusal why) {
  switch (why) {
    case Refusal::kFull: return " the queues are full\r\n";
    case Refusal::kDelay: return " it has waited too long\r\n";
    case Refusal::kShare: return " its connection has had its turn\r\n";
    case Refusal::kAbandoned: return " the server is stopping\r\n";
    case Refusal::kExpired: return " its deadline has passed\r\n";
    case Refusal::kLimit: return " more than the server lets in\r\n";
  }
  return "\r\n";
}

char* put(char* to, std::string_view text) {
  std::memcpy(to, text.data(), text.size());
  return to + text.size();
}

}  // namespace

int64_t retry_after_ms(const Request& request) {
  constexpr int64_t kMilli = 1'000'000;
  return std::max<int64_t>((request.retry_after.count() + kMilli - 1) / kMilli, 1);
}

void append_refusal(ReplyBuffer& out, OverloadReply code, const Request& request) {
  char* const line = out.reserve(kMaxLineBytes);
  if (line == nullptr) return;
  char* to = put(line, code == OverloadReply::kOverloaded ? "-OVERLOADED " : "-THROTTLED ");
  to = put(to, request.job_class == JobClass::kLong ? "long" : "short");
  to = put(to, " retry-after-ms ");
  to += write_integer(to, retry_after_ms(request));
  to = put(to, reason(request.refusal));
  out.commit(static_cast<size_t>(to - line));
}

}  // namespace rubato::kv
