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
#include "kv_server/server/options.h"

namespace rubato::kv {

// One of noeviction, allkeys-lru and volatile-ttl; any case.
Result<Eviction> parse_eviction(std::string_view text);
std::string_view to_string(Eviction eviction);

// Groups of four words: a class of clients, its hard limit, soft limit and seconds. Classes that
// are not named keep what `base` has.
Result<OutputLimits> parse_output_limits(std::string_view text, const OutputLimits& base = {});
std::string to_string(const OutputLimits& limits);

}  // namespace rubato::kv
