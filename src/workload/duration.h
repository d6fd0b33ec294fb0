// SPDX-License-Identifier: Apache-2.0
//
// Numbers and lengths of time as people write them: `2.5us`, `1ms`, `850ns`, `3s`, `12`.
// Pure functions; safe on every thread.
#pragma once

#include <optional>
#include <string_view>

#include "base/picos.h"
#include "base/time.h"

namespace rubato {

// A finite number without sign, as 0.25 or 2.5e-1; nothing if `text` is anything else.
std::optional<double> parse_number(std::string_view text);

// A number with a unit of ns, us, ms or s; without a unit it is in `bare_unit`. Nothing if `text`
// is anything else or longer than 10^6 seconds.
std::optional<Nanos> parse_duration(std::string_view text, Nanos bare_unit = Nanos::micros(1));

// The same to the picosecond, always with a unit, and not longer than a second.
std::optional<Picos> parse_picos(std::string_view text);

// The text without leading and trailing blanks.
std::string_view trimmed(std::string_view text);

}  // namespace rubato
