// SPDX-License-Identifier: Apache-2.0
//
// Makes the rounds of very small loops larger, where a countdown in each would be felt: loops that
// search and so cannot be strip-mined. To be run on a function before it is planned.
#pragma once

#include <llvm/Analysis/TargetLibraryInfo.h>
#include <llvm/Analysis/TargetTransformInfo.h>
#include <llvm/IR/Function.h>

namespace rubato::pass {

// The number of loops unrolled. Every copy of the body keeps its exits.
unsigned unroll_small_loops(llvm::Function& function, const llvm::TargetLibraryInfo& library,
                            const llvm::TargetTransformInfo& target);

}  // namespace rubato::pass
