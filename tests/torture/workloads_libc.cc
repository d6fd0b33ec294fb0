// SPDX-License-Identifier: Apache-2.0
#include <locale.h>
#include <search.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cfenv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <vector>

#include "tests/torture/foreign.h"
#include "tests/torture/workload.h"

namespace torture {

// Blocks that are allocated, grown and freed in a random order hold what was written into them.
uint64_t allocation(uint64_t seed) {
  Random random(seed);
  Sum sum;
  struct Block {
    unsigned char* memory = nullptr;
    size_t bytes = 0;
    unsigned char mark = 0;
  };
  std::array<Block, 24> blocks;
  const auto check = [&sum](const Block& block) {
    size_t wrong = 0;
    for (size_t i = 0; i < block.bytes; ++i) wrong += block.memory[i] != block.mark ? 1 : 0;
    sum.add(wrong * 1000 + block.mark);
  };
  for (int i = 0; i < 200; ++i) {
    Block& block = blocks[random.below(blocks.size())];
    check(block);
    const size_t bytes = 1 + random.below(random.below(10) == 0 ? 20'000 : 300);
    if (block.memory == nullptr || random.below(2) == 0) {
      free(block.memory);
      block.memory = static_cast<unsigned char*>(random.below(2) == 0 ? malloc(bytes)
                                                                      : calloc(1, bytes));
    } else {
      block.memory = static_cast<unsigned char*>(realloc(block.memory, bytes));
    }
    block.bytes = bytes;
    block.mark = static_cast<unsigned char>(random.next());
    memset(block.memory, block.mark, bytes);
  }
  for (Block& block : blocks) {
    check(block);
    free(block.memory);
  }
  return sum.value();
}

namespace {

int compare(const void* a, const void* b) {
  const uint64_t x = *static_cast<const uint64_t*>(a);
  const uint64_t y = *static_cast<const uint64_t*>(b);
  return x < y ? -1 : (x > y ? 1 : 0);
}

}  // namespace

// qsort, bsearch and tsearch call the program back from inside libc.
uint64_t sorting(uint64_t seed) {
  Random random(seed);
  Sum sum;
  std::vector<uint64_t> values(300);
  for (uint64_t& value : values) value = random.below(100'000);
  void* tree = nullptr;
  for (const uint64_t& value : values) tsearch(&value, &tree, compare);
  std::vector<uint64_t> sorted = values;
  qsort(sorted.data(), sorted.size(), sizeof(sorted[0]), compare);
  for (const uint64_t value : sorted) sum.add(value);
  for (int i = 0; i < 100; ++i) {
    const uint64_t key = random.below(100'000);
    const bool found = bsearch(&key, sorted.data(), sorted.size(), sizeof(key), compare) != nullptr;
    const bool in_tree = tfind(&key, &tree, compare) != nullptr;
    sum.add((found ? 1u : 0u) + (in_tree ? 2u : 0u));
  }
  for (const uint64_t& value : values) tdelete(&value, &tree, compare);
  sum.add(tree == nullptr ? 1 : 0);
  return sum.value();
}

// The rounding mode is the fiber's own while it lasts.
uint64_t floating_point(uint64_t seed) {
  Random random(seed);
  Sum sum;
  constexpr std::array kModes = {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
  for (const int mode : kModes) {
    std::fesetround(mode);
    volatile double x = 1.0 + static_cast<double>(random.below(1000));
    volatile long double y = 1.0L;
    const double step = 1.0 / (1.0 + static_cast<double>(random.below(1000)));
    for (int i = 0; i < 400; ++i) {
      x = x / 3.0 + step;
      y = y / 3.0L + static_cast<long double>(step);
    }
    double transcendental = 0;
    for (int i = 0; i < 50; ++i) transcendental += std::sin(x * i) * std::exp(-i * 0.01);
    sum.add(static_cast<uint64_t>(std::fegetround()));
    sum.add(static_cast<uint64_t>(x * 1e15));
    sum.add(static_cast<uint64_t>(y * 1e17L));
    sum.add(static_cast<uint64_t>(std::llround(transcendental * 1e9)));
  }
  std::fesetround(FE_TONEAREST);
  return sum.value();
}

// Loops that the compiler keeps in vector registers.
uint64_t vectors(uint64_t seed) {
  Random random(seed);
  alignas(64) std::array<uint32_t, 1024> a;
  alignas(64) std::array<uint32_t, 1024> b;
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<uint32_t>(random.next());
    b[i] = static_cast<uint32_t>(random.next());
  }
  for (int round = 0; round < 60; ++round) {
    for (size_t i = 0; i < a.size(); ++i) a[i] = a[i] * 2654435761u + (b[i] ^ (a[i] >> 15));
    for (size_t i = 0; i < a.size(); ++i) b[i] += a[i] * 40503u;
  }
  Sum sum;
  for (size_t i = 0; i < a.size(); ++i) sum.add(a[i] ^ (static_cast<uint64_t>(b[i]) << 32));
  return sum.value();
}

uint64_t thread_locals(uint64_t seed) {
  Random random(seed);
  Sum sum;
  foreign_begin(seed);
  for (int i = 0; i < 100; ++i) {
    foreign_step(random.below(60));
    sum.add(foreign_text());
    sum.add(static_cast<uint64_t>(is_first_queue()));
  }
  return sum.value();
}

// errno lasts over code that does not set it; strerror's text for unknown numbers is per thread.
uint64_t error_numbers(uint64_t seed) {
  Random random(seed);
  Sum sum;
  for (int i = 0; i < 60; ++i) {
    errno = static_cast<int>(1 + random.below(100));
    uint64_t x = random.next();
    for (uint64_t k = random.below(300); k > 0; --k) x = x * 6364136223846793005u + 1;
    sum.add(x);
    sum.add(static_cast<uint64_t>(errno));
    const char* unknown = strerror(static_cast<int>(5000 + random.below(1000)));
    for (uint64_t k = random.below(300); k > 0; --k) x = x * 6364136223846793005u + 1;
    sum.add(unknown);
    sum.add(x);
    if (fopen("", "r") == nullptr) sum.add(static_cast<uint64_t>(errno));
  }
  return sum.value();
}

// A locale for the calling thread only, and functions of libc with a state for each caller.
uint64_t locales(uint64_t seed) {
  Random random(seed);
  Sum sum;
  locale_t plain = newlocale(LC_ALL_MASK, "C", nullptr);
  const locale_t before = uselocale(plain);
  char text[] = "one,two;three four,five;six";
  char* state = nullptr;
  for (char* token = strtok_r(text, ",; ", &state); token != nullptr;
       token = strtok_r(nullptr, ",; ", &state)) {
    sum.add(token);
  }
  auto rand_state = static_cast<unsigned>(seed);
  for (int i = 0; i < 40; ++i) {
    sum.add(static_cast<uint64_t>(rand_r(&rand_state)));
    const auto when = static_cast<time_t>(random.below(2'000'000'000));
    tm parts{};
    gmtime_r(&when, &parts);
    char date[64];
    sum.add(std::string_view(date, strftime(date, sizeof(date), "%A %d %B %Y %T", &parts)));
    sum.add(static_cast<uint64_t>(strtod("3.25e2", nullptr)));
    sum.add(uselocale(nullptr) == plain ? 1 : 0);
  }
  uselocale(before);
  freelocale(plain);
  return sum.value();
}

}  // namespace torture
