// SPDX-License-Identifier: Apache-2.0
//
// Makes the rounds of very small loops larger, where a countdown in each round would cost too much:
// search loops, which cannot be strip-mined. Run on a function before it is planned.
#pragma once

#include <llvm/Analysis/TargetLibraryInfo.h>
#include <llvm/Analysis/TargetTransformInfo.h>
#include <llvm/IR/Function.h>

namespace rubato::pass {

// Returns the number of loops unrolled. Every copy of the body keeps its exits.
unsigned unroll_small_loops(llvm::Function& function, const llvm::TargetLibraryInfo& library,
                            const llvm::TargetTransformInfo& target);

}  // namespace rubato::pass
