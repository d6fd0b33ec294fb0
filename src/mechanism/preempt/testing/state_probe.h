// SPDX-License-Identifier: Apache-2.0
//
// For tests of interrupts, x86-64 only: code that fills everything a processor keeps for a thread
// with patterns, computes for a while, and reports what came out different. Any thread, one call at
// a time on each.
#pragma once

#include <cstdint>
#include <string>

namespace rubato {

// Returns an empty string, or what an interrupt changed in the middle of `rounds` additions (about
// a cycle each): a general register, the carry flag anywhere between two instructions, the
// direction flag, a vector register, the x87 stack, a control word, the red zone.
std::string probe_state(uint64_t rounds, uint64_t seed);

}  // namespace rubato
