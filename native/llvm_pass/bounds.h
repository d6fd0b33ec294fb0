// SPDX-License-Identifier: Apache-2.0
//
// Finds out whether a loop counts towards a bound, so that it can be strip-mined. Used while
// planning; changes nothing.
#pragma once

#include <llvm/Analysis/LoopInfo.h>
#include <llvm/Analysis/ScalarEvolution.h>

#include <optional>

#include "plan.h"

namespace rubato::pass {

// The comparison of the loop's only latch, if that leaves the loop when a variable that grows by
// the same step each round passes a constant bound; `rounds` steps must fit the variable's type.
std::optional<Bounded> bounds_of(const llvm::Loop& loop, llvm::ScalarEvolution& evolution,
                                 unsigned rounds);

}  // namespace rubato::pass
