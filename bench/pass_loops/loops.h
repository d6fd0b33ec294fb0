// SPDX-License-Identifier: Apache-2.0
//
// The loop suite of librubato-pass.so: kernels of kinds that servers and libraries are made of. The
// kernel files are compiled twice, with the pass and without, in namespaces of their own
// (RUBATO_LOOPS_VARIANT), and linked into one program, so that both run in turn on the same data.
//
// A kernel works `rounds` times over what it works on, some microseconds to a millisecond each, and
// gives a checksum that depends on everything it did. Kernels use no random state but what they are
// given by a seed, and may be called in any order, on one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace rubato::loops {

struct Kernel {
  const char* name;
  uint64_t (*run)(uint32_t rounds);
};

// A fixed sequence, for data (SplitMix64).
class Sequence {
 public:
  explicit Sequence(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

 private:
  uint64_t state_;
};

inline uint64_t mix(uint64_t hash, uint64_t value) {
  return (hash ^ value) * 0x100000001b3 + (hash >> 47);
}

// Data that does not fit the caches is shared by both variants, as where it lies matters.
struct Node {
  uint32_t next;
  uint32_t value;
  uint64_t padding[7];  // more than a cache line each
};
// One circle through all `count` nodes in random order; 256 or 1 << 20 of them.
std::span<const Node> circle(uint32_t count);
std::span<const uint64_t> many_words();   // 32 MiB
std::span<char> megabytes(size_t which);  // two of them

namespace RUBATO_LOOPS_VARIANT {
std::span<const Kernel> numeric_kernels();
std::span<const Kernel> memory_kernels();
std::span<const Kernel> text_kernels();
std::span<const Kernel> control_kernels();
std::span<const Kernel> library_kernels();
}  // namespace RUBATO_LOOPS_VARIANT

}  // namespace rubato::loops
