// SPDX-License-Identifier: Apache-2.0
//
// Summary: the facts that the callers of a function know of it, if it was compiled in the same
// module. Filled bottom-up, callees first. Distances are in estimated instructions.
#pragma once

#include <llvm/ADT/DenseMap.h>
#include <llvm/IR/Function.h>

namespace rubato::pass {

struct Summary {
  unsigned distance = 0;   // from the call to the return, on paths without a checkpoint
  bool checkpoints = false;  // every path to a return passes a checkpoint
};

using Summaries = llvm::DenseMap<const llvm::Function*, Summary>;

}  // namespace rubato::pass
