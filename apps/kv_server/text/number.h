// SPDX-License-Identifier: Apache-2.0
//
// Numbers as Redis reads and writes them. Pure functions over bytes; safe on every thread; nothing
// here allocates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace rubato::kv {

// Bytes that hold any int64 with sign, and any long double in write_float's form.
inline constexpr size_t kMaxIntegerBytes = 20;
inline constexpr size_t kMaxFloatBytes = 5 * 1024;

// Reads a whole decimal int64 in its one canonical form: no sign but '-', no leading zeros, no
// spaces. False = anything else, or out of range.
bool parse_integer(std::string_view text, int64_t& value);

// Reads what strtold reads, without leading space and to the end; no NaN. False = anything else.
bool parse_float(std::string_view text, long double& value);
bool parse_double(std::string_view text, double& value);

// Writes `value` in decimal to `to`, which has room for kMaxIntegerBytes; returns the length.
size_t write_integer(char* to, int64_t value);

// Writes with 17 digits behind the point, trailing zeros cut off, as INCRBYFLOAT answers. `to` has
// room for kMaxFloatBytes; returns the length.
size_t write_float(char* to, long double value);

// Writes the shortest of 17 significant digits that RESP3 doubles use ("inf", "-inf", "nan").
size_t write_double(char* to, double value);

// Bytes of memory with an optional unit (b, k, kb, m, mb, g, gb; kb is 1024, k is 1000), as in
// CONFIG SET maxmemory. False = not of that form, or over uint64.
bool parse_memory(std::string_view text, uint64_t& bytes);

}  // namespace rubato::kv
