// SPDX-License-Identifier: Apache-2.0
//
// The texts of the parameters that bound memory: maxmemory-policy and client-output-buffer-limit,
// as Redis has them.
#pragma once

#include <string>
#include <string_view>

#include "base/memory_account.h"
#include "base/result.h"
#include "kv_server/engine/engine.h"

namespace rubato::kv {

// One of noeviction, allkeys-lru and volatile-ttl; any case.
Result<Eviction> parse_eviction(std::string_view text);
std::string_view to_string(Eviction eviction);

// Triples of a class of clients, a hard limit, a soft limit and its seconds. All clients here are
// of the class `normal`; the others (replica, slave, pubsub) may be given as "0 0 0".
Result<OutputLimit> parse_output_limit(std::string_view text);
std::string to_string(const OutputLimit& limit);

}  // namespace rubato::kv
