// SPDX-License-Identifier: Apache-2.0
//
// The plan of the checkpoints of one function: made from its analyses before the function is
// changed, then carried out (apply.h). Blocks are named by instructions that stay in them during
// the changes: splitting a block moves its end.
#pragma once

#include <llvm/ADT/APInt.h>
#include <llvm/ADT/SmallVector.h>
#include <llvm/ADT/StringRef.h>
#include <llvm/IR/InstrTypes.h>
#include <llvm/IR/Instructions.h>

#include <optional>

#include "summary.h"

namespace llvm {
class TargetLibraryInfo;
}

namespace rubato::pass {

enum class LoopKind {
  kShort,      // known to end before a checkpoint is due: none
  kCovered,    // every round passes a checkpoint anyway: none
  kEach,       // a round is long: a checkpoint at the end of each
  kStripMined, // split into an outer loop of chunks; the inner one is as before
  kCounted,    // rounds use up a counter of the function; at its end a checkpoint
};
inline constexpr unsigned kLoopKinds = 5;
llvm::StringRef name_of(LoopKind kind);

// The comparison at the end of a round, as "go on while x `predicate` bound".
struct Bounded {
  llvm::Value* x = nullptr;  // start + round * step
  llvm::Value* bound = nullptr;
  llvm::CmpInst::Predicate predicate = llvm::CmpInst::BAD_ICMP_PREDICATE;
  llvm::APInt step;
  llvm::PHINode* variable = nullptr;  // x is this plus `offset` in every round
  llvm::APInt offset;
};

struct LoopPlan {
  LoopKind kind = LoopKind::kShort;
  unsigned rounds = 1;  // between two checkpoints, about
  unsigned charge = 1;  // the amount that a round takes off the counter
  bool outermost = false;
  llvm::BasicBlock* header = nullptr;
  llvm::Instruction* entry_end = nullptr;               // of the block before it, if there is one
  llvm::SmallVector<llvm::Instruction*, 1> latch_ends;  // the ways back to the header
  Bounded bounded;                                        // only of a strip-mined loop
  unsigned line = 0;                                      // in the source, 0 = not known
};

struct FunctionPlan {
  llvm::SmallVector<LoopPlan, 4> loops;
  llvm::SmallVector<llvm::Instruction*, 4> points;  // a checkpoint before each
  bool at_entry = false;                            // one of them is for recursion
  Summary summary;

  bool changes() const {
    for (const LoopPlan& loop : loops) {
      if (loop.kind != LoopKind::kShort && loop.kind != LoopKind::kCovered) return true;
    }
    return !points.empty();
  }
};

// Facts about a function from outside it.
struct Surroundings {
  bool recurses = false;   // calls itself within the module, directly or not
  bool reachable = false;  // from other modules, or through a pointer
};

// Adds an entry block to loops without one, and plans. Changes nothing else.
FunctionPlan plan_function(llvm::Function& function, const llvm::TargetLibraryInfo& library,
                           const Surroundings& surroundings,
                           const llvm::SmallPtrSetImpl<const llvm::Function*>& circle,
                           const Summaries& summaries);

}  // namespace rubato::pass
