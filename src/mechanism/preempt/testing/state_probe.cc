// SPDX-License-Identifier: Apache-2.0
#include "mechanism/preempt/testing/state_probe.h"

#include <cstddef>
#include <cstring>

namespace rubato {
namespace {

constexpr unsigned kGeneral = 12;  // rbx rbp rdi rsi r8-r15
constexpr unsigned kVectors = 16;
constexpr unsigned kRedZone = 16;
constexpr uint32_t kMxcsrUpward = 0x1f80u | 0x4000u;  // all traps off, rounding up
constexpr uint16_t kX87Double = 0x027f;               // all traps off, 53 bits
constexpr uint64_t kDirectionFlag = 1u << 10;

// Offsets are used by state_probe_x86_64.S.
struct ProbeState {
  uint64_t general[kGeneral];        // 0; general[0] is the step of the addition
  uint64_t red_zone[kRedZone];       // 96
  uint64_t low;                      // 224
  uint64_t high;                     // 232
  uint64_t flags;                    // 240
  uint64_t wide;                     // 248; use the 32-byte registers (set in both)
  uint8_t vectors[kVectors][32];     // 256
  uint8_t x87[2][16];                // 768
  uint32_t mxcsr;                    // 800
  uint16_t control;                  // 804
};
static_assert(offsetof(ProbeState, vectors) == 256 && offsetof(ProbeState, control) == 804);

extern "C" void rubato_state_probe(const ProbeState* in, ProbeState* out, uint64_t rounds);

uint64_t next(uint64_t& state) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return state ^ (state >> 29);
}

ProbeState patterns(uint64_t seed) {
  ProbeState state{};
  for (uint64_t& word : state.general) word = next(seed);
  for (uint64_t& word : state.red_zone) word = next(seed);
  state.low = next(seed);
  state.flags = kDirectionFlag;
  state.wide = __builtin_cpu_supports("avx") ? 1 : 0;
  const size_t used = state.wide != 0 ? 32 : 16;
  for (auto& vector : state.vectors) {
    for (size_t i = 0; i < used; ++i) vector[i] = static_cast<uint8_t>(next(seed) >> 40);
  }
  for (auto& number : state.x87) {
    const long double value = static_cast<long double>(next(seed)) / 3;
    std::memcpy(number, &value, 10);
  }
  state.mxcsr = kMxcsrUpward;
  state.control = kX87Double;
  return state;
}

}  // namespace

std::string probe_state(uint64_t rounds, uint64_t seed) {
  const ProbeState in = patterns(seed);
  ProbeState out{};
  out.wide = in.wide;
  rubato_state_probe(&in, &out, rounds);
  std::string changed;
  for (unsigned i = 0; i < kGeneral; ++i) {
    if (in.general[i] != out.general[i]) changed += "general " + std::to_string(i) + " ";
  }
  __extension__ using Wide = unsigned __int128;
  const Wide sum = static_cast<Wide>(in.general[0]) * rounds + in.low;
  if (out.low != static_cast<uint64_t>(sum)) changed += "rax ";
  if (out.high != static_cast<uint64_t>(sum >> 64)) changed += "carry ";
  if ((out.flags & kDirectionFlag) == 0) changed += "direction ";
  if (std::memcmp(in.red_zone, out.red_zone, sizeof in.red_zone) != 0) changed += "red-zone ";
  for (unsigned i = 0; i < kVectors; ++i) {
    if (std::memcmp(in.vectors[i], out.vectors[i], sizeof in.vectors[i]) != 0) {
      changed += "vector " + std::to_string(i) + " ";
    }
  }
  if (std::memcmp(in.x87, out.x87, sizeof in.x87) != 0) changed += "x87 ";
  if (in.control != out.control) changed += "x87-control ";
  if (in.mxcsr != (out.mxcsr & ~0x3fu)) changed += "mxcsr ";
  return changed;
}

}  // namespace rubato
