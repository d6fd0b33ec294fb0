// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <numeric>
#include <vector>

#include "loops.h"

namespace rubato::loops::RUBATO_LOOPS_VARIANT {
namespace {

template <uint32_t kNodes>
uint64_t chase(uint32_t rounds) {
  const std::span<const Node> nodes = circle(kNodes);
  uint64_t hash = 0;
  uint32_t at = 0;
  for (uint32_t i = 0; i < rounds * 1000; ++i) {
    hash += nodes[at].value;
    at = nodes[at].next;
  }
  return hash;
}

struct Link {
  Link* next = nullptr;
  uint64_t value = 0;
};

uint64_t walk_list(uint32_t rounds) {
  static const std::unique_ptr<Link[]> links = [] {
    auto made = std::make_unique<Link[]>(1000);
    for (size_t i = 0; i + 1 < 1000; ++i) made[i * 7 % 1000].next = &made[(i + 1) * 7 % 1000];
    for (size_t i = 0; i < 1000; ++i) made[i].value = i;
    return made;
  }();
  uint64_t sum = 0;
  for (uint32_t round = 0; round < rounds; ++round) {
    for (const Link* at = &links[0]; at != nullptr; at = at->next) sum += at->value ^ round;
  }
  return sum;
}

uint64_t gather(uint32_t rounds) {
  const std::span<const uint64_t> words = many_words();
  uint64_t state = 1, sum = 0;
  for (uint32_t i = 0; i < rounds * 1000; ++i) {
    state = state * 6364136223846793005 + 1442695040888963407;
    sum += words[(state >> 33) % words.size()];
  }
  return sum;
}

uint64_t copy_bytes(uint32_t rounds) {
  static std::vector<char> from(64 * 1024, 'x');
  static std::vector<char> to(64 * 1024);
  uint64_t hash = 0;
  for (uint32_t round = 0; round < rounds; ++round) {
    from[round % from.size()] = static_cast<char>(round);
    std::memcpy(to.data(), from.data(), from.size() - round % 16);
    hash = mix(hash, static_cast<uint64_t>(to[round % 100]));
  }
  return hash;
}

uint64_t copy_megabytes(uint32_t rounds) {
  const std::span<char> from = megabytes(0), to = megabytes(1);
  for (uint32_t round = 0; round < rounds; ++round) {
    from[round % from.size()] = static_cast<char>(round);
    std::memcpy(to.data(), from.data(), from.size() - round % 16);
  }
  return static_cast<uint64_t>(to[rounds % 1000]);
}

uint64_t copy_filtered(uint32_t rounds) {
  static const std::vector<uint32_t> from = [] {
    std::vector<uint32_t> made(8192);
    Sequence sequence(20);
    for (uint32_t& each : made) each = static_cast<uint32_t>(sequence.next());
    return made;
  }();
  static std::vector<uint32_t> to(8192);
  uint64_t hash = 0;
  for (uint32_t round = 0; round < rounds; ++round) {
    size_t kept = 0;
    for (const uint32_t value : from) {
      to[kept] = value;
      kept += (value ^ round) & 1;
    }
    hash = mix(hash, kept + to[kept / 2]);
  }
  return hash;
}

uint64_t reverse_words(uint32_t rounds) {
  static std::vector<uint64_t> words(4096);
  std::iota(words.begin(), words.end(), uint64_t{0});
  for (uint32_t round = 0; round < rounds; ++round) {
    for (size_t i = 0, j = words.size() - 1; i < j; ++i, --j) {
      const uint64_t word = words[i];
      words[i] = words[j] + 1;
      words[j] = word;
    }
  }
  return std::accumulate(words.begin(), words.end(), uint64_t{0}, mix);
}

uint64_t histogram(uint32_t rounds) {
  static const std::vector<uint8_t> bytes = [] {
    std::vector<uint8_t> made(16384);
    Sequence sequence(21);
    for (uint8_t& each : made) each = static_cast<uint8_t>(sequence.next());
    return made;
  }();
  std::array<uint32_t, 256> counts{};
  for (uint32_t round = 0; round < rounds; ++round) {
    for (const uint8_t byte : bytes) ++counts[byte];
  }
  return std::accumulate(counts.begin(), counts.end(), uint64_t{0}, mix);
}

uint64_t binary_search(uint32_t rounds) {
  static const std::vector<uint64_t> sorted = [] {
    std::vector<uint64_t> made(100'000);
    for (size_t i = 0; i < made.size(); ++i) made[i] = i * 17;
    return made;
  }();
  Sequence sequence(22);
  uint64_t hash = 0;
  for (uint32_t i = 0; i < rounds * 50; ++i) {
    const uint64_t wanted = sequence.next() % (100'000 * 17);
    size_t low = 0, high = sorted.size();
    while (low < high) {
      const size_t middle = low + (high - low) / 2;
      if (sorted[middle] < wanted) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    hash = mix(hash, low);
  }
  return hash;
}

// Open addressing, half full.
uint64_t hash_table(uint32_t rounds) {
  constexpr size_t kSlots = 1 << 16;
  static const std::vector<uint64_t> slots = [] {
    std::vector<uint64_t> made(kSlots);
    for (uint64_t key = 1; key <= kSlots / 2; ++key) {
      size_t at = key * 0x9e3779b97f4a7c15 >> 48;
      while (made[at] != 0) at = (at + 1) % kSlots;
      made[at] = key;
    }
    return made;
  }();
  Sequence sequence(23);
  uint64_t found = 0;
  for (uint32_t i = 0; i < rounds * 200; ++i) {
    const uint64_t key = sequence.next() % kSlots + 1;
    size_t at = key * 0x9e3779b97f4a7c15 >> 48;
    while (slots[at] != 0 && slots[at] != key) at = (at + 1) % kSlots;
    found += slots[at] == key ? at : 1;
  }
  return found;
}

uint64_t first_free_bit(uint32_t rounds) {
  static std::array<uint64_t, 512> map;
  map.fill(0);
  uint64_t hash = 0;
  for (uint32_t i = 0; i < rounds * 16; ++i) {
    size_t word = 0;
    while (word < map.size() && map[word] == ~uint64_t{0}) ++word;
    if (word == map.size()) {
      map.fill(0);
      word = 0;
    }
    map[word] = map[word] << 7 | 127;
    hash = mix(hash, word);
  }
  return hash;
}

constexpr Kernel kKernels[] = {
    {"chase_in_cache", chase<256>}, {"chase_in_memory", chase<(1 << 20)>},
    {"walk_list", walk_list}, {"gather", gather},
    {"copy_bytes", copy_bytes}, {"copy_megabytes", copy_megabytes},
    {"copy_filtered", copy_filtered}, {"reverse_words", reverse_words},
    {"histogram", histogram}, {"binary_search", binary_search},
    {"hash_table", hash_table}, {"first_free_bit", first_free_bit},
};

}  // namespace

std::span<const Kernel> memory_kernels() { return kKernels; }

}  // namespace rubato::loops::RUBATO_LOOPS_VARIANT
