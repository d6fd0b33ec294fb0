// SPDX-License-Identifier: Apache-2.0
#include <numeric>
#include <utility>
#include <vector>

#include "loops.h"

namespace rubato::loops {
namespace {

std::vector<Node> make_circle(uint32_t count) {
  std::vector<uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0u);
  Sequence sequence(count);
  for (uint32_t i = count - 1; i > 0; --i) {
    std::swap(order[i], order[sequence.next() % (i + 1)]);
  }
  std::vector<Node> nodes(count);
  for (uint32_t i = 0; i < count; ++i) {
    nodes[order[i]].next = order[(i + 1) % count];
    nodes[order[i]].value = i;
  }
  return nodes;
}

}  // namespace

std::span<const Node> circle(uint32_t count) {
  static const std::vector<Node> small = make_circle(256);
  static const std::vector<Node> large = make_circle(1 << 20);
  return count == small.size() ? small : large;
}

std::span<const uint64_t> many_words() {
  static const std::vector<uint64_t> words = [] {
    std::vector<uint64_t> made(size_t{1} << 22);
    std::iota(made.begin(), made.end(), uint64_t{5});
    return made;
  }();
  return words;
}

std::span<char> megabytes(size_t which) {
  static std::vector<char> both[2] = {std::vector<char>(1 << 20), std::vector<char>(1 << 20)};
  return both[which];
}

}  // namespace rubato::loops
