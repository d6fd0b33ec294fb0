// SPDX-License-Identifier: Apache-2.0
#include "kv_server/server/memory_rules.h"

#include <algorithm>
#include <array>
#include <sstream>
#include <vector>

#include "kv_server/text/number.h"
#include "kv_server/text/words.h"

namespace rubato::kv {
namespace {

struct Named {
  std::string_view name;
  Eviction eviction;
};
constexpr std::array kEvictions{Named{"noeviction", Eviction::kNone},
                                Named{"allkeys-lru", Eviction::kLru},
                                Named{"volatile-ttl", Eviction::kVolatileTtl}};
constexpr int64_t kMostSeconds = 1'000'000'000;

// Of three words.
bool parse_limit(const std::string* words, OutputLimit& limit) {
  int64_t seconds = 0;
  if (!parse_memory(words[0], limit.hard_bytes) || !parse_memory(words[1], limit.soft_bytes) ||
      !parse_integer(words[2], seconds) || seconds < 0 || seconds > kMostSeconds) {
    return false;
  }
  limit.soft_for = Nanos::seconds(seconds);
  return true;
}

OutputLimit* of_class(std::string_view name, OutputLimits& limits) {
  if (same_word(name, "normal")) return &limits.normal;
  if (same_word(name, "replica") || same_word(name, "slave")) return &limits.replica;
  return same_word(name, "pubsub") ? &limits.pubsub : nullptr;
}

}  // namespace

Result<Eviction> parse_eviction(std::string_view text) {
  for (const Named& one : kEvictions) {
    if (same_word(one.name, text)) return one.eviction;
  }
  return Error{"argument must be one of the following: noeviction, allkeys-lru, volatile-ttl"};
}

std::string_view to_string(Eviction eviction) {
  return std::find_if(kEvictions.begin(), kEvictions.end(), [eviction](const Named& one) {
           return one.eviction == eviction;
         })->name;
}

Result<OutputLimits> parse_output_limits(std::string_view text, const OutputLimits& base) {
  std::istringstream in{std::string(text)};
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  if (words.empty() || words.size() % 4 != 0) {
    return Error{"Wrong number of arguments in buffer limit configuration."};
  }
  OutputLimits limits = base;
  for (size_t i = 0; i < words.size(); i += 4) {
    OutputLimit* const limit = of_class(words[i], limits);
    if (limit == nullptr) {
      return Error{"Invalid client class specified in buffer limit configuration."};
    }
    if (!parse_limit(&words[i + 1], *limit)) {
      return Error{"Error in hard, soft or soft_seconds setting in buffer limit configuration."};
    }
  }
  return limits;
}

std::string to_string(const OutputLimits& limits) {
  const auto show = [](const char* name, const OutputLimit& limit) {
    return name + std::to_string(limit.hard_bytes) + " " + std::to_string(limit.soft_bytes) + " " +
           std::to_string(limit.soft_for.count() / Nanos::seconds(1).count());
  };
  return show("normal ", limits.normal) + show(" slave ", limits.replica) +
         show(" pubsub ", limits.pubsub);
}

}  // namespace rubato::kv
