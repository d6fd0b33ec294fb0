// SPDX-License-Identifier: Apache-2.0
//
// Fills a store before a run: SET key:%012d for every key, in pipelined batches over one
// connection; for mixes that need them also a list and a set, and the counters of memcached, which
// counts up only what is there. Blocks until done. Any thread; two
// calls at once on the same target write the same keys.
#pragma once

#include <string>

#include "base/result.h"
#include "load/options.h"
#include "load/request_source.h"

namespace rubato::load {

struct PreloadPlan {
  KvShape shape;
  uint64_t list_items = 0;   // elements of kListKey; 0 = do not touch it
  uint64_t set_members = 0;  // members of kSetKey
  uint64_t hash_fields = 0;  // fields of kHashKey
  bool counters = false;     // set each counter to 0
};

// The plan that serves `mix` (not checked here) over the protocol.
PreloadPlan plan_preload(std::string_view mix, const KvShape& shape,
                         Protocol protocol = Protocol::kResp);

// Of the options it takes the target, the password and TLS. Fails with one line at the first error
// reply of the server or when the connection breaks.
Status preload(const LoadOptions& options, const PreloadPlan& plan);

}  // namespace rubato::load
