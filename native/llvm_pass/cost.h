// SPDX-License-Identifier: Apache-2.0
//
// Costs: the cost of an instruction in units of one cheap instruction (a tenth to a quarter of a
// nanosecond), which measure the distance between checkpoints. The costs estimate the time that
// code takes when it is slow, so a load whose address comes from another load counts as one that
// may miss the caches. Owns nothing; lives as long as the analyses of one function.
#pragma once

#include <llvm/ADT/SmallPtrSet.h>
#include <llvm/Analysis/LoopInfo.h>
#include <llvm/Analysis/ScalarEvolution.h>
#include <llvm/Analysis/TargetLibraryInfo.h>
#include <llvm/IR/InstrTypes.h>

#include "summary.h"

namespace rubato::pass {

class Costs {
 public:
  Costs(llvm::ScalarEvolution& evolution, const llvm::LoopInfo& loops,
        const llvm::TargetLibraryInfo& library,
        const llvm::SmallPtrSetImpl<const llvm::Function*>& circle, const Summaries& summaries)
      : evolution_(evolution),
        loops_(loops),
        library_(library),
        circle_(circle),
        summaries_(summaries) {}

  unsigned of(const llvm::Instruction& instruction) const;

  // True for a call that always passes a checkpoint.
  bool checkpoints(const llvm::Instruction& instruction) const;

  // True if the call may lead back to the function that makes it, as far as this module knows.
  bool may_call_back(const llvm::CallBase& call) const;

 private:
  unsigned of_call(const llvm::CallBase& call) const;
  unsigned of_load(const llvm::Instruction& load) const;
  unsigned of_recurrence(const llvm::SCEVAddRecExpr& recurrence) const;
  const Summary* summary_of(const llvm::CallBase& call) const;
  bool is_library(const llvm::Function& callee) const;

  llvm::ScalarEvolution& evolution_;
  const llvm::LoopInfo& loops_;
  const llvm::TargetLibraryInfo& library_;
  const llvm::SmallPtrSetImpl<const llvm::Function*>& circle_;  // functions that call each other
  const Summaries& summaries_;
};

}  // namespace rubato::pass
