// SPDX-License-Identifier: Apache-2.0
//
// What the callers of a function know of it, as far as it was compiled in the same module. Filled
// bottom-up, callees first. Distances are in estimated instructions.
#pragma once

#include <llvm/ADT/DenseMap.h>
#include <llvm/IR/Function.h>

namespace rubato::pass {

struct Summary {
  unsigned distance = 0;   // from the call to the return, where no checkpoint is on the way
  bool checkpoints = false;  // every path to a return passes a checkpoint
};

using Summaries = llvm::DenseMap<const llvm::Function*, Summary>;

}  // namespace rubato::pass
