// SPDX-License-Identifier: Apache-2.0
//
// The answer to a refused request:
//
//   -OVERLOADED short retry-after-ms 8 it has waited too long
//
// It has the code, the class of the request (short, long), the time after which a retry is worth
// it, and the reason. It uses none of the codes on which client libraries repeat a request by
// themselves (BUSY, LOADING, TRYAGAIN, CLUSTERDOWN, READONLY, "max number of clients"): these would
// answer overload with more load. Any thread.
#pragma once

#include <cstdint>

#include "datapath/request.h"

namespace rubato::kv {

// The first word.
enum class OverloadReply : uint8_t { kOverloaded, kThrottled };

// At least 1, rounded up.
int64_t retry_after_ms(const Request& request);

// Appends the error to `out`. Allocates nothing there is room for.
void append_refusal(ReplyBuffer& out, OverloadReply code, const Request& request);

}  // namespace rubato::kv
