// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "loops.h"

namespace rubato::loops::RUBATO_LOOPS_VARIANT {
namespace {

constexpr size_t kItems = 2000;

std::vector<uint32_t>& shuffled(uint32_t seed) {
  static std::vector<uint32_t> items(kItems);
  Sequence sequence(seed);
  for (uint32_t& each : items) each = static_cast<uint32_t>(sequence.next());
  return items;
}

void quicksort(uint32_t* from, uint32_t* to) {
  if (to - from < 2) return;
  const uint32_t pivot = from[(to - from) / 2];
  uint32_t *low = from, *high = to - 1;
  while (low <= high) {
    while (*low < pivot) ++low;
    while (*high > pivot) --high;
    if (low <= high) std::swap(*low++, *high--);
  }
  quicksort(from, high + 1);
  quicksort(low, to);
}

uint64_t sort_quickly(uint32_t rounds) {
  uint64_t hash = 0;
  for (uint32_t round = 0; round < rounds; ++round) {
    std::vector<uint32_t>& items = shuffled(round);
    quicksort(items.data(), items.data() + items.size());
    hash = mix(hash, items[round % kItems]);
  }
  return hash;
}

uint64_t sort_by_insertion(uint32_t rounds) {
  uint64_t hash = 0;
  for (uint32_t round = 0; round < rounds; ++round) {
    std::vector<uint32_t>& items = shuffled(round);
    for (size_t i = 1; i < 200; ++i) {
      const uint32_t item = items[i];
      size_t at = i;
      for (; at > 0 && items[at - 1] > item; --at) items[at] = items[at - 1];
      items[at] = item;
    }
    hash = mix(hash, items[round % 200]);
  }
  return hash;
}

void sift(std::vector<uint32_t>& heap, size_t at, size_t end) {
  for (size_t child = 2 * at + 1; child < end; child = 2 * at + 1) {
    if (child + 1 < end && heap[child + 1] > heap[child]) ++child;
    if (heap[at] >= heap[child]) return;
    std::swap(heap[at], heap[child]);
    at = child;
  }
}

uint64_t sort_by_heap(uint32_t rounds) {
  uint64_t hash = 0;
  for (uint32_t round = 0; round < rounds; ++round) {
    std::vector<uint32_t>& items = shuffled(round);
    for (size_t at = kItems / 2; at-- > 0;) sift(items, at, kItems);
    for (size_t end = kItems; --end > 0;) {
      std::swap(items[0], items[end]);
      sift(items, 0, end);
    }
    hash = mix(hash, items[round % kItems]);
  }
  return hash;
}

// NOLINTNEXTLINE: the recursion is the subject
uint64_t fibonacci(uint64_t n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }

uint64_t recurse(uint32_t rounds) {
  uint64_t sum = 0;
  for (uint32_t round = 0; round < rounds; ++round) sum += fibonacci(15 + round % 2);
  return sum;
}

uint64_t queens(uint32_t all, uint32_t columns, uint32_t left, uint32_t right) {
  if (columns == all) return 1;
  uint64_t found = 0;
  for (uint32_t free = all & ~(columns | left | right); free != 0; free &= free - 1) {
    const uint32_t bit = free & -free;
    found += queens(all, columns | bit, (left | bit) << 1, (right | bit) >> 1);
  }
  return found;
}

uint64_t place_queens(uint32_t rounds) {
  uint64_t sum = 0;
  for (uint32_t round = 0; round < rounds; ++round) sum += queens(127, 0, round % 2, 0);
  return sum;
}

struct Tree {
  uint32_t key = 0;
  std::array<std::unique_ptr<Tree>, 2> child;
};

void insert(std::unique_ptr<Tree>& at, uint32_t key) {
  if (at == nullptr) {
    at = std::make_unique<Tree>();
    at->key = key;
  } else {
    insert(at->child[key > at->key ? 1 : 0], key);
  }
}

uint64_t sum_of(const Tree* tree, uint64_t above) {
  if (tree == nullptr) return above;
  const uint64_t here = above ^ tree->key;
  return sum_of(tree->child[0].get(), here) + sum_of(tree->child[1].get(), here);
}

uint64_t walk_tree(uint32_t rounds) {
  static const std::unique_ptr<Tree> tree = [] {
    std::unique_ptr<Tree> made;
    Sequence sequence(40);
    for (int i = 0; i < 1000; ++i) insert(made, static_cast<uint32_t>(sequence.next() % 100'000));
    return made;
  }();
  uint64_t sum = 0;
  for (uint32_t round = 0; round < rounds; ++round) sum += sum_of(tree.get(), sum ^ round);
  return sum;
}

struct Shape {
  virtual ~Shape() = default;
  virtual uint64_t area(uint64_t size) const = 0;
};
struct Square : Shape {
  uint64_t area(uint64_t size) const override { return size * size; }
};
struct Strip : Shape {
  uint64_t area(uint64_t size) const override { return size * 3 + 1; }
};
struct Stairs : Shape {
  uint64_t area(uint64_t size) const override { return size * (size + 1) / 2; }
};

uint64_t call_virtually(uint32_t rounds) {
  static const std::vector<std::unique_ptr<Shape>> shapes = [] {
    std::vector<std::unique_ptr<Shape>> made;
    Sequence sequence(41);
    for (int i = 0; i < 1000; ++i) {
      const uint64_t draw = sequence.next() % 3;
      if (draw == 0) made.push_back(std::make_unique<Square>());
      if (draw == 1) made.push_back(std::make_unique<Strip>());
      if (draw == 2) made.push_back(std::make_unique<Stairs>());
    }
    return made;
  }();
  uint64_t sum = 0;
  for (uint32_t round = 0; round < rounds; ++round) {
    for (const auto& shape : shapes) sum += shape->area(sum % 100);
  }
  return sum;
}

// A stack machine: push, add, multiply, duplicate, decrement, jump if not zero, drop.
uint64_t interpret(uint32_t rounds) {
  static constexpr std::array<uint8_t, 11> kProgram{0, 0, 3, 1, 2, 6, 4, 3, 5, 2, 7};
  uint64_t hash = 0;
  for (uint32_t round = 0; round < rounds; ++round) {
    std::array<uint64_t, 16> stack{};
    size_t top = 0, at = 0;
    uint64_t fuel = 2000 + round % 16;
    while (fuel-- > 0) {
      switch (kProgram[at++ % kProgram.size()]) {
        case 0: stack[top++ % 16] = fuel; break;
        case 1: stack[top % 16] += stack[(top + 15) % 16]; break;
        case 2: stack[top % 16] *= 3; break;
        case 3: stack[(top + 1) % 16] = stack[top % 16]; break;
        case 4: --stack[top % 16]; break;
        case 5: at += stack[top % 16] % 2; break;
        case 6: --top; break;
        default: at = 0; break;
      }
    }
    hash = mix(hash, stack[top % 16]);
  }
  return hash;
}

// NOLINTNEXTLINE: thrown for the sake of it
void throw_some(uint32_t i) {
  if (i % 16 == 0) throw std::runtime_error("now and then");
}

uint64_t throw_and_catch(uint32_t rounds) {
  uint64_t sum = 0;
  for (uint32_t i = 1; i < rounds * 64; ++i) {
    try {
      throw_some(i);
      sum += i;
    } catch (const std::runtime_error& error) {
      sum += static_cast<uint64_t>(error.what()[0]);
    }
  }
  return sum;
}

constexpr Kernel kKernels[] = {
    {"sort_quickly", sort_quickly}, {"sort_by_insertion", sort_by_insertion},
    {"sort_by_heap", sort_by_heap}, {"recurse", recurse},
    {"place_queens", place_queens}, {"walk_tree", walk_tree},
    {"call_virtually", call_virtually}, {"interpret", interpret},
    {"throw_and_catch", throw_and_catch},
};

}  // namespace

std::span<const Kernel> control_kernels() { return kKernels; }

}  // namespace rubato::loops::RUBATO_LOOPS_VARIANT
