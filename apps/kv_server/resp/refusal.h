// SPDX-License-Identifier: Apache-2.0
//
// What a client is told whose request is not served:
//
//   -OVERLOADED short retry-after-ms 8 it has waited too long
//
// the code, the class of the request (short, long), when it is worth asking again, and why. None of
// the codes that client libraries repeat by themselves (BUSY, LOADING, TRYAGAIN, CLUSTERDOWN,
// READONLY, "max number of clients"): they would answer overload with more load. Any thread.
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
