// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "loops.h"

namespace rubato::loops::RUBATO_LOOPS_VARIANT {
namespace {

uint64_t sort_by_library(uint32_t rounds) {
  static std::vector<uint64_t> items(2000);
  uint64_t hash = 0;
  for (uint32_t round = 0; round < rounds; ++round) {
    Sequence sequence(round);
    for (uint64_t& each : items) each = sequence.next();
    std::sort(items.begin(), items.end());
    hash = mix(hash, items[round % items.size()]);
  }
  return hash;
}

uint64_t sort_strings(uint32_t rounds) {
  uint64_t hash = 0;
  for (uint32_t round = 0; round < rounds; ++round) {
    Sequence sequence(round);
    std::vector<std::string> items(200);
    for (std::string& each : items) each = "key" + std::to_string(sequence.next() % 10'000);
    std::sort(items.begin(), items.end());
    hash = mix(hash, items[round % items.size()].size());
  }
  return hash;
}

uint64_t walk_map(uint32_t rounds) {
  static const std::map<uint64_t, uint64_t> map = [] {
    std::map<uint64_t, uint64_t> made;
    Sequence sequence(50);
    for (uint64_t i = 0; i < 1000; ++i) made[sequence.next()] = i;
    return made;
  }();
  uint64_t sum = 0;
  for (uint32_t round = 0; round < rounds; ++round) {
    for (const auto& [key, value] : map) sum += key ^ value;
  }
  return sum;
}

uint64_t look_up_in_map(uint32_t rounds) {
  static const std::map<std::string, uint64_t> map = [] {
    std::map<std::string, uint64_t> made;
    for (uint64_t i = 0; i < 2000; ++i) made["user" + std::to_string(i * 7919 % 10'000)] = i;
    return made;
  }();
  uint64_t sum = 0;
  std::string key;
  for (uint32_t i = 0; i < rounds * 20; ++i) {
    key = "user" + std::to_string(i * 31 % 10'000);
    const auto found = map.find(key);
    sum += found == map.end() ? 1 : found->second;
  }
  return sum;
}

uint64_t fill_hash_map(uint32_t rounds) {
  uint64_t hash = 0;
  for (uint32_t round = 0; round < rounds; ++round) {
    std::unordered_map<uint64_t, uint64_t> map;
    Sequence sequence(round);
    for (uint64_t i = 0; i < 300; ++i) map[sequence.next() % 500] += i;
    for (uint64_t i = 0; i < 500; ++i) hash = mix(hash, map.count(i));
  }
  return hash;
}

uint64_t append_text(uint32_t rounds) {
  uint64_t sum = 0;
  for (uint32_t round = 0; round < rounds; ++round) {
    std::string text;
    for (int i = 0; i < 500; ++i) text += i % 2 == 0 ? "ab" : "cde";
    for (const char c : text) sum += static_cast<uint64_t>(c);
  }
  return sum;
}

uint64_t call_functions(uint32_t rounds) {
  const std::array<std::function<uint64_t(uint64_t)>, 3> calls{
      [](uint64_t x) { return x + 1; }, [&](uint64_t x) { return x ^ rounds; },
      [](uint64_t x) { return x * 3; }};
  uint64_t value = 0;
  for (uint32_t i = 0; i < rounds * 300; ++i) value = calls[i % 3](value);
  return value;
}

uint64_t pass_queue(uint32_t rounds) {
  std::deque<uint64_t> queue{1, 2, 3};
  uint64_t hash = 0;
  for (uint32_t i = 0; i < rounds * 300; ++i) {
    hash = mix(hash, queue.front());
    queue.pop_front();
    queue.push_back(hash % 97);
    if (queue.size() < 64) queue.push_back(i);
  }
  return hash;
}

constexpr Kernel kKernels[] = {
    {"sort_by_library", sort_by_library}, {"sort_strings", sort_strings},
    {"walk_map", walk_map}, {"look_up_in_map", look_up_in_map},
    {"fill_hash_map", fill_hash_map}, {"append_text", append_text},
    {"call_functions", call_functions}, {"pass_queue", pass_queue},
};

}  // namespace

std::span<const Kernel> library_kernels() { return kKernels; }

}  // namespace rubato::loops::RUBATO_LOOPS_VARIANT
