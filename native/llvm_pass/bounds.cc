// SPDX-License-Identifier: Apache-2.0
#include "bounds.h"

#include <llvm/Analysis/ScalarEvolutionExpressions.h>

namespace rubato::pass {
namespace {

using namespace llvm;

// True if a variable that rises, or falls, reaches the bound of this comparison.
bool goes_with(CmpInst::Predicate predicate, bool rises) {
  switch (predicate) {
    case CmpInst::ICMP_NE:
      return true;
    case CmpInst::ICMP_ULT:
    case CmpInst::ICMP_SLT:
    case CmpInst::ICMP_ULE:
    case CmpInst::ICMP_SLE:
      return rises;
    case CmpInst::ICMP_UGT:
    case CmpInst::ICMP_SGT:
    case CmpInst::ICMP_UGE:
    case CmpInst::ICMP_SGE:
      return !rises;
    default:
      return false;
  }
}

// Finds a variable of the header that differs from x by a constant, so that x at the start of a
// chunk can be computed from that variable's value there.
bool find_variable(const Loop& loop, ScalarEvolution& evolution, Bounded& bounded) {
  const SCEV* x = evolution.getSCEV(bounded.x);
  for (PHINode& variable : loop.getHeader()->phis()) {
    if (variable.getType() != bounded.x->getType()) continue;
    const SCEV* difference = evolution.getMinusSCEV(x, evolution.getSCEV(&variable));
    if (const auto* constant = dyn_cast<SCEVConstant>(difference)) {
      bounded.variable = &variable;
      bounded.offset = constant->getAPInt();
      return true;
    }
  }
  return false;
}

// Takes x and bound from the comparison, whichever side they are on.
bool take_sides(const Loop& loop, const ICmpInst& compare, Bounded& bounded) {
  bounded.x = compare.getOperand(0);
  bounded.bound = compare.getOperand(1);
  bounded.predicate = compare.getPredicate();
  if (!loop.isLoopInvariant(bounded.bound)) {
    std::swap(bounded.x, bounded.bound);
    bounded.predicate = CmpInst::getSwappedPredicate(bounded.predicate);
  }
  return loop.isLoopInvariant(bounded.bound) && !loop.isLoopInvariant(bounded.x);
}

}  // namespace

std::optional<Bounded> bounds_of(const Loop& loop, ScalarEvolution& evolution, unsigned rounds) {
  const BasicBlock* latch = loop.getLoopLatch();
  if (latch == nullptr || loop.getLoopPreheader() == nullptr) return std::nullopt;
  const auto* branch = dyn_cast<BranchInst>(latch->getTerminator());
  if (branch == nullptr || !branch->isConditional()) return std::nullopt;
  const bool goes_on_if_true = branch->getSuccessor(0) == loop.getHeader();
  if (loop.contains(branch->getSuccessor(goes_on_if_true ? 1 : 0))) return std::nullopt;
  const auto* compare = dyn_cast<ICmpInst>(branch->getCondition());
  Bounded bounded;
  if (compare == nullptr || !take_sides(loop, *compare, bounded)) return std::nullopt;
  if (!goes_on_if_true) bounded.predicate = CmpInst::getInversePredicate(bounded.predicate);
  if (!evolution.isSCEVable(bounded.x->getType())) return std::nullopt;
  const auto* recurrence = dyn_cast<SCEVAddRecExpr>(evolution.getSCEV(bounded.x));
  if (recurrence == nullptr || recurrence->getLoop() != &loop || !recurrence->isAffine()) {
    return std::nullopt;
  }
  const auto* step = dyn_cast<SCEVConstant>(recurrence->getStepRecurrence(evolution));
  if (step == nullptr || step->getAPInt().isZero()) return std::nullopt;
  bounded.step = step->getAPInt();
  if (!goes_with(bounded.predicate, bounded.step.isStrictlyPositive())) return std::nullopt;
  bool overflows = false;
  const APInt most(bounded.step.getBitWidth(), rounds);
  static_cast<void>(bounded.step.abs().smul_ov(most, overflows));
  if (overflows || most.getZExtValue() != rounds) return std::nullopt;
  if (!find_variable(loop, evolution, bounded)) return std::nullopt;
  return bounded;
}

}  // namespace rubato::pass
