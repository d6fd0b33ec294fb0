// SPDX-License-Identifier: Apache-2.0
//
// PreemptMechanism: the ways to preempt a running request, by name. Which of them a machine has is
// for mechanism/preempt/mechanism.h to say. A plain value.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "base/option_info.h"

namespace rubato {

enum class PreemptMechanism : uint8_t {
  kAuto,
  kNone,
  kCheckpoint,
  kSignal,
  kTimer,
  kUintr,
  kKmod,
};

inline constexpr std::array kPreemptChoices{
    OptionChoice{"auto", "the best that works: uintr, kmod, else checkpoint"},
    OptionChoice{"none", "a request runs to its end"},
    OptionChoice{"checkpoint", "at checkpoints, where its code has them"},
    OptionChoice{"signal", "at any instruction, as all below: a timer core sends a signal"},
    OptionChoice{"timer", "a timer of its worker's own"},
    OptionChoice{"uintr", "a timer core sends a user interrupt"},
    OptionChoice{"kmod", "a timer core has a kernel module interrupt the CPU"},
};
constexpr std::span<const OptionChoice> choices_of(PreemptMechanism) { return kPreemptChoices; }

}  // namespace rubato
