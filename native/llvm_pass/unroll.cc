// SPDX-License-Identifier: Apache-2.0
#include "unroll.h"

#include <llvm/Analysis/AssumptionCache.h>
#include <llvm/Analysis/LoopInfo.h>
#include <llvm/Analysis/OptimizationRemarkEmitter.h>
#include <llvm/Analysis/ScalarEvolution.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/Transforms/Utils/LoopSimplify.h>
#include <llvm/Transforms/Utils/LoopUtils.h>
#include <llvm/Transforms/Utils/UnrollLoop.h>

#include "bounds.h"

namespace rubato::pass {
namespace {

using namespace llvm;

constexpr unsigned kSmallBody = 16;  // instructions
constexpr unsigned kCopies = 4;

bool is_call(const Instruction& instruction) {
  return isa<CallBase>(instruction) && !isa<IntrinsicInst>(instruction);
}

bool is_small(const Loop& loop) {
  unsigned size = 0;
  for (const BasicBlock* block : loop.blocks()) {
    if (any_of(*block, is_call)) return false;
    size += static_cast<unsigned>(block->sizeWithoutDebug());
  }
  return size <= kSmallBody;
}

bool is_candidate(Loop& loop, ScalarEvolution& evolution) {
  return loop.isInnermost() && loop.getLoopLatch() != nullptr && is_small(loop) &&
         loop.isSafeToClone() &&
         findOptionMDForLoop(&loop, "llvm.loop.unroll.disable") == nullptr &&
         evolution.getSmallConstantMaxTripCount(&loop) == 0 && !bounds_of(loop, evolution, 2);
}

}  // namespace

unsigned unroll_small_loops(Function& function, const TargetLibraryInfo& library,
                            const TargetTransformInfo& target) {
  if (function.hasOptNone() || function.hasOptSize()) return 0;
  DominatorTree tree(function);
  LoopInfo loops(tree);
  AssumptionCache assumptions(function);
  for (Loop* loop : loops.getLoopsInPreorder()) {
    if (loop->getLoopPreheader() == nullptr) {
      InsertPreheaderForLoop(loop, &tree, &loops, nullptr, false);
    }
  }
  ScalarEvolution evolution(function, const_cast<TargetLibraryInfo&>(library), assumptions, tree,
                            loops);
  OptimizationRemarkEmitter remarks(&function);
  SmallVector<Loop*, 4> candidates;
  for (Loop* loop : loops.getLoopsInPreorder()) {
    if (is_candidate(*loop, evolution)) candidates.push_back(loop);
  }
  unsigned unrolled = 0;
  for (Loop* loop : candidates) {
    simplifyLoop(loop, &tree, &loops, &evolution, &assumptions, nullptr, false);
    formLCSSARecursively(*loop, tree, &loops, &evolution);
    if (!loop->isLoopSimplifyForm()) continue;
    UnrollLoopOptions wanted{};
    wanted.Count = kCopies;
    wanted.ForgetAllSCEV = true;
    const LoopUnrollResult result = UnrollLoop(loop, wanted, &loops, &evolution, &tree,
                                               &assumptions, &target, &remarks, true);
    unrolled += result == LoopUnrollResult::Unmodified ? 0u : 1u;
  }
  return unrolled;
}

}  // namespace rubato::pass
