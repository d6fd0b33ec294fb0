// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>

#include "kv_server/commands/helpers.h"

namespace rubato::kv {
namespace {

void increment(Context& c, int64_t by) {
  enum class Problem : uint8_t { kNone, kNotANumber, kOverflow };
  Problem problem = Problem::kNone;
  int64_t value = 0;
  char digits[kMaxIntegerBytes];
  const Outcome outcome = c.engine.update(c.argv[1], [&](const Current& current) {
    value = 0;
    if (current.exists && !parse_integer(current.value, value)) {
      problem = Problem::kNotANumber;
      return Change::keep();
    }
    if (__builtin_add_overflow(value, by, &value)) {
      problem = Problem::kOverflow;
      return Change::keep();
    }
    return Change::put({digits, write_integer(digits, value)}, current.expires_at_ms);
  });
  if (problem == Problem::kNotANumber) return c.error(kNotInteger);
  if (problem == Problem::kOverflow) {
    return c.error("ERR increment or decrement would overflow");
  }
  if (c.good(outcome)) c.reply.integer(value);
}

void incr(Context& c) { increment(c, 1); }
void decr(Context& c) { increment(c, -1); }

void incrby(Context& c) {
  int64_t by = 0;
  if (read_integer(c, c.argv[2], by)) increment(c, by);
}

void decrby(Context& c) {
  int64_t by = 0;
  if (!read_integer(c, c.argv[2], by)) return;
  if (by == std::numeric_limits<int64_t>::min()) {
    return c.error("ERR decrement would overflow");
  }
  increment(c, -by);
}

void incrbyfloat(Context& c) {
  enum class Problem : uint8_t { kNone, kNotANumber, kNotFinite };
  Problem problem = Problem::kNone;
  char digits[kMaxFloatBytes];
  size_t length = 0;
  long double by = 0;
  const bool good_argument = parse_float(c.argv[2], by);
  const Outcome outcome = c.engine.update(c.argv[1], [&](const Current& current) {
    long double value = 0;
    if ((current.exists && !parse_float(current.value, value)) || !good_argument) {
      problem = Problem::kNotANumber;
      return Change::keep();
    }
    value += by;
    if (!std::isfinite(value)) {
      problem = Problem::kNotFinite;
      return Change::keep();
    }
    length = write_float(digits, value);
    return Change::put({digits, length}, current.expires_at_ms);
  });
  if (problem == Problem::kNotANumber) return c.error(kNotFloat);
  if (problem == Problem::kNotFinite) {
    return c.error("ERR increment would produce NaN or Infinity");
  }
  if (c.good(outcome)) c.reply.bulk({digits, length});
}

constexpr uint32_t kCount = kWrite | kDenyOom | kFast;
constexpr KeyPositions kOneKey{1, 1, 1};

constexpr Command kCommands[] = {
    {"incr", 2, kCount, kOneKey, incr, Group::kString, "1.0.0", "Adds one to a counter", {}},
    {"decr", 2, kCount, kOneKey, decr, Group::kString, "1.0.0", "Takes one off a counter", {}},
    {"incrby", 3, kCount, kOneKey, incrby, Group::kString, "1.0.0", "Adds to a counter", {}},
    {"decrby", 3, kCount, kOneKey, decrby, Group::kString, "1.0.0", "Takes off a counter", {}},
    {"incrbyfloat", 3, kCount, kOneKey, incrbyfloat, Group::kString, "2.6.0",
     "Adds to a counter that is a decimal fraction", {}},
};

}  // namespace

std::span<const Command> counter_commands() { return kCommands; }

}  // namespace rubato::kv
