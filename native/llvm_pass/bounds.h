// SPDX-License-Identifier: Apache-2.0
//
// Finds out whether a loop counts towards a bound, so that it can be strip-mined. Asked while
// planning; changes nothing.
#pragma once

#include <llvm/Analysis/LoopInfo.h>
#include <llvm/Analysis/ScalarEvolution.h>

#include <optional>

#include "plan.h"

namespace rubato::pass {

// How the loop's only latch compares, if it leaves the loop when a variable that grows by the same
// amount each round passes a bound that stays; `rounds` of them must fit the variable's type.
std::optional<Bounded> bounds_of(const llvm::Loop& loop, llvm::ScalarEvolution& evolution,
                                 unsigned rounds);

}  // namespace rubato::pass
