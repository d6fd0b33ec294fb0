// SPDX-License-Identifier: Apache-2.0
#include "plan.h"

#include <llvm/ADT/PostOrderIterator.h>
#include <llvm/ADT/SmallPtrSet.h>
#include <llvm/Analysis/AssumptionCache.h>
#include <llvm/Analysis/BlockFrequencyInfo.h>
#include <llvm/Analysis/BranchProbabilityInfo.h>
#include <llvm/Analysis/CFG.h>
#include <llvm/IR/Dominators.h>
#include <llvm/Transforms/Utils/LoopUtils.h>

#include "bounds.h"
#include "cost.h"
#include "options.h"

namespace rubato::pass {
namespace {

using namespace llvm;

// From so many instructions on, the cost of a checkpoint in every round is negligible: a checkpoint
// is three instructions, one of which reads and writes memory.
constexpr unsigned kLongRound = 150;

// A countdown or chunk of fewer rounds costs more than a checkpoint in each.
constexpr unsigned kFewRounds = 4;

// A loop of unknown length is left, as a rule, either after a few rounds or after many chunks. If
// the loop is in another loop or is called from one, this share of the distance is assumed.
constexpr unsigned kUnknownShare = 4;

class Planner {
 public:
  Planner(Function& function, const TargetLibraryInfo& library, const Surroundings& surroundings,
          const SmallPtrSetImpl<const Function*>& circle, const Summaries& summaries)
      : function_(function),
        surroundings_(surroundings),
        circle_(circle),
        tree_(function),
        loops_(tree_),
        assumptions_(function),
        evolution_(with_entries(), const_cast<TargetLibraryInfo&>(library), assumptions_, tree_,
                   loops_),
        chances_(function, loops_, &library),
        frequencies_(function, chances_, loops_),
        costs_(evolution_, loops_, library, circle, summaries) {}

  FunctionPlan run() {
    for (Loop* loop : loops_.getLoopsInReverseSiblingPreorder()) order_.push_back(loop);
    // Inner loops come behind outer ones in that order.
    for (Loop* loop : reverse(order_)) plan_loop(*loop);
    plan_odd_cycles();
    plan_recursion();
    plan_catches();
    plan_straight_line();
    plan_.summary = summarise();
    return std::move(plan_);
  }

 private:
  // Adds the missing loop entries before the analyses that need them run. Other loop forms stay:
  // several latches of a loop are often several branches of a `switch`, and faster apart.
  Function& with_entries() {
    for (Loop* loop : loops_.getLoopsInPreorder()) {
      if (loop->getLoopPreheader() == nullptr) {
        InsertPreheaderForLoop(loop, &tree_, &loops_, nullptr, false);
      }
    }
    return function_;
  }

  // The expected cost of one round of the loop: blocks weighted by their likelihood, inner loops by
  // their possible cost without a checkpoint.
  unsigned round_cost(const Loop& loop, bool weighted) const {
    const double rounds = frequency(loop.getHeader());
    double cost = 0;
    for (const BasicBlock* block : loop.blocks()) {
      const Loop* home = loops_.getLoopFor(block);
      const double share = std::min(1.0, frequency(block) / rounds);
      if (home == &loop) {
        cost += share * (weighted ? block_cost(*block) : static_cast<double>(block->size()));
      } else if (home->getParentLoop() == &loop && home->getHeader() == block) {
        // A counted inner loop counts down the same counter itself.
        cost += plan_of(home)->kind == LoopKind::kCounted ? 0 : share * through_.lookup(home);
      }
    }
    return static_cast<unsigned>(std::min(cost, 1e9)) + 1;
  }

  double frequency(const BasicBlock* block) const {
    const uint64_t times = frequencies_.getBlockFreq(block).getFrequency();
    return std::max<double>(1, static_cast<double>(times));
  }

  double block_cost(const BasicBlock& block) const {
    double cost = 0;
    SmallPtrSet<const Value*, 8> read;  // a second load from about the same place is a cheap one
    for (const Instruction& instruction : block) {
      const auto* load = dyn_cast<LoadInst>(&instruction);
      const bool again =
          load != nullptr &&
          !read.insert(load->getPointerOperand()->stripInBoundsConstantOffsets()).second;
      cost += again ? 1 : costs_.of(instruction);
    }
    return cost;
  }

  bool has_checkpoint(const BasicBlock& block) const {
    if (checked_.contains(&block)) return true;
    return any_of(block, [&](const Instruction& each) { return costs_.checkpoints(each); });
  }

  // True if control can go from `from` to a target without a checkpoint, inside the loop if there
  // is one and not along its back edges.
  bool can_slip(const BasicBlock* from, const Loop* loop,
                function_ref<bool(const BasicBlock&)> is_target) const {
    SmallVector<const BasicBlock*, 16> todo{from};
    SmallPtrSet<const BasicBlock*, 16> seen{from};
    while (!todo.empty()) {
      const BasicBlock* block = todo.pop_back_val();
      if (has_checkpoint(*block)) continue;
      if (is_target(*block)) return true;
      for (const BasicBlock* next : successors(block)) {
        if (loop != nullptr && (!loop->contains(next) || next == loop->getHeader())) continue;
        if (seen.insert(next).second) todo.push_back(next);
      }
    }
    return false;
  }

  void plan_loop(Loop& loop) {
    LoopPlan plan;
    plan.header = loop.getHeader();
    if (const DebugLoc at = loop.getStartLoc()) plan.line = at.getLine();
    SmallVector<BasicBlock*, 2> latches;
    loop.getLoopLatches(latches);
    for (BasicBlock* latch : latches) plan.latch_ends.push_back(latch->getTerminator());
    if (const BasicBlock* before = loop.getLoopPreheader()) {
      plan.entry_end = const_cast<Instruction*>(before->getTerminator());
    }
    const unsigned cost = round_cost(loop, true);
    plan.charge = cost;
    plan.outermost = loop.isOutermost();
    plan.kind = kind_of(loop, cost, plan);
    if (plan.kind == LoopKind::kEach) checked_.insert(latches.begin(), latches.end());
    through_[&loop] = through(loop, plan, cost);
    plan_.loops.push_back(std::move(plan));
  }

  LoopKind kind_of(const Loop& loop, unsigned cost, LoopPlan& plan) {
    const unsigned distance = options().distance;
    const auto is_latch = [&](const BasicBlock& block) { return loop.isLoopLatch(&block); };
    if (!can_slip(loop.getHeader(), &loop, is_latch)) return LoopKind::kCovered;
    const unsigned most = evolution_.getSmallConstantMaxTripCount(&loop);
    if (most > 0 && uint64_t{most} * cost <= distance) return LoopKind::kShort;
    plan.rounds = std::max(1u, distance / cost);
    if (plan.rounds < kFewRounds) return LoopKind::kEach;
    if (plan.entry_end != nullptr && !recurses_in(loop)) {
      if (std::optional<Bounded> bounded = bounds_of(loop, evolution_, plan.rounds)) {
        plan.bounded = *bounded;
        return LoopKind::kStripMined;
      }
    }
    return round_cost(loop, false) >= kLongRound ? LoopKind::kEach : LoopKind::kCounted;
  }

  // True for a loop with a recursive call. Such a loop has few rounds as a rule, so chunks would
  // cost more than the countdown.
  bool recurses_in(const Loop& loop) const {
    return any_of(loop.blocks(), [&](const BasicBlock* block) {
      return any_of(*block, [&](const Instruction& each) { return closes_circle(each); });
    });
  }

  bool closes_circle(const Instruction& instruction) const {
    const auto* call = dyn_cast<CallBase>(&instruction);
    const Function* callee = call != nullptr ? call->getCalledFunction() : nullptr;
    return surroundings_.recurses && callee != nullptr && circle_.contains(callee);
  }

  // The distance that a loop may add to the code around it.
  unsigned through(const Loop& loop, const LoopPlan& plan, unsigned cost) {
    const unsigned distance = options().distance;
    if (plan.kind == LoopKind::kShort) {
      return evolution_.getSmallConstantMaxTripCount(&loop) * cost;
    }
    return is_tight(plan) ? distance / kUnknownShare : std::min(cost, distance);
  }

  // Cycles with several entries are no loops to LLVM.
  void plan_odd_cycles() {
    SmallVector<std::pair<const BasicBlock*, const BasicBlock*>, 8> edges;
    FindFunctionBackedges(function_, edges);
    for (const auto& [from, to] : edges) {
      const Loop* loop = loops_.getLoopFor(to);
      if (loop != nullptr && loop->getHeader() == to && loop->contains(from)) continue;
      if (!checked_.insert(from).second) continue;
      plan_.points.push_back(const_cast<Instruction*>(from->getTerminator()));
    }
  }

  // Every circle of calls passes a call that may come back, so a checkpoint that dominates all such
  // calls is passed each time; it is placed as late as possible, which spares the paths without
  // such a call. Where no circle is known, a function that makes no second such call can only be
  // part of a chain, which the stack keeps short.
  void plan_recursion() {
    SmallVector<Instruction*, 8> calls, strangers;
    for (BasicBlock& block : function_) {
      if (isa<UnreachableInst>(block.getTerminator()) || block.isEHPad()) continue;
      for (Instruction& each : block) {
        const auto* call = dyn_cast<CallBase>(&each);
        if (call == nullptr) continue;
        if (closes_circle(each)) {
          calls.push_back(&each);
        } else if (surroundings_.reachable && costs_.may_call_back(*call)) {
          strangers.push_back(&each);
        }
      }
    }
    for (Instruction* call : strangers) {
      if (any_of(strangers, [&](const Instruction* earlier) { return follows(*call, *earlier); })) {
        calls.push_back(call);
      }
    }
    if (calls.empty()) return;
    BasicBlock* block = calls.front()->getParent();
    for (const Instruction* call : calls) {
      block = tree_.findNearestCommonDominator(block, const_cast<BasicBlock*>(call->getParent()));
    }
    while (loops_.getLoopFor(block) != nullptr) block = tree_.getNode(block)->getIDom()->getBlock();
    Instruction* at = block->getTerminator();
    for (Instruction* call : reverse(calls)) {
      if (call->getParent() == block) at = call;
    }
    if (block->isEHPad()) return;
    plan_.points.push_back(at);
    plan_.at_entry = true;
    checked_.insert(block);
  }

  // True if control can come from `earlier` to `call`. A call follows itself in a loop.
  bool follows(const Instruction& call, const Instruction& earlier) const {
    if (call.getParent() == earlier.getParent() && earlier.comesBefore(&call)) return true;
    for (const BasicBlock* next : successors(earlier.getParent())) {
      if (isPotentiallyReachable(next, call.getParent(), nullptr, &tree_, &loops_)) return true;
    }
    return false;
  }

  // A throw with its catch takes a microsecond or two, and is rare, so the pass counts none of it
  // as likely. Where it may happen repeatedly, in a loop, a checkpoint follows the catch.
  void plan_catches() {
    for (BasicBlock& block : function_) {
      if (loops_.getLoopFor(&block) == nullptr) continue;
      for (Instruction& each : block) {
        const auto* call = dyn_cast<CallInst>(&each);
        const Function* callee = call != nullptr ? call->getCalledFunction() : nullptr;
        if (callee == nullptr || callee->getName() != "__cxa_end_catch") continue;
        plan_.points.push_back(each.getNextNode());
        checked_.insert(&block);
      }
    }
  }

  // Places checkpoints in long stretches without a loop, where the distance has been used up.
  void plan_straight_line() {
    DenseMap<const BasicBlock*, unsigned> ahead;  // distance at the end of the block
    ReversePostOrderTraversal<Function*> order(&function_);
    for (BasicBlock* block : order) {
      unsigned distance = 0;
      for (const BasicBlock* before : predecessors(block)) {
        const auto found = ahead.find(before);
        if (found != ahead.end()) distance = std::max(distance, found->second);
      }
      ahead[block] = walk(*block, distance);
    }
    ahead_ = std::move(ahead);
  }

  unsigned walk(BasicBlock& block, unsigned distance) {
    const Loop* loop = loops_.getLoopFor(&block);
    const unsigned limit = options().distance * 2;
    if (const LoopPlan* plan = plan_of(loop); plan != nullptr && is_tight(*plan)) {
      const LoopPlan* around = plan_of(loop->getParentLoop());
      const bool counted = around != nullptr && is_tight(*around);
      if (plan->header == &block && !counted) distance += through_.lookup(loop);
      return std::min(distance, limit);
    }
    for (Instruction& each : block) {
      if (is_contained(plan_.points, &each)) distance = 0;
      const unsigned cost = costs_.of(each);
      if (distance + cost > limit && distance > 0 && may_stand_before(each)) {
        plan_.points.push_back(&each);
        checked_.insert(&block);
        distance = 0;
      }
      distance = costs_.checkpoints(each) ? 0 : distance + cost;
    }
    return ends_with_checkpoint(block) ? 0 : distance;
  }

  bool ends_with_checkpoint(const BasicBlock& block) const {
    const LoopPlan* plan = plan_of(loops_.getLoopFor(&block));
    return plan != nullptr && plan->kind == LoopKind::kEach &&
           is_contained(plan->latch_ends, block.getTerminator());
  }

  static bool may_stand_before(const Instruction& each) {
    return !isa<PHINode>(each) && !each.getParent()->isEHPad() && !each.isTerminator() &&
           !isa<AllocaInst>(each);
  }

  const LoopPlan* plan_of(const Loop* loop) const {
    if (loop == nullptr) return nullptr;
    return find_if(plan_.loops,
                   [&](const LoopPlan& plan) { return plan.header == loop->getHeader(); });
  }

  // True for a loop whose rounds get no further checkpoint.
  static bool is_tight(const LoopPlan& plan) {
    return plan.kind != LoopKind::kEach && plan.kind != LoopKind::kCovered;
  }

  Summary summarise() const {
    Summary summary;
    const auto returns = [](const BasicBlock& block) {
      return isa<ReturnInst>(block.getTerminator());
    };
    summary.checkpoints = !can_slip(&function_.getEntryBlock(), nullptr, returns);
    for (const BasicBlock& block : function_) {
      if (returns(block)) summary.distance = std::max(summary.distance, ahead_.lookup(&block));
    }
    summary.distance = std::min(summary.distance, 2 * options().distance);
    return summary;
  }

  Function& function_;
  const Surroundings& surroundings_;
  const SmallPtrSetImpl<const Function*>& circle_;
  DominatorTree tree_;
  LoopInfo loops_;
  AssumptionCache assumptions_;
  ScalarEvolution evolution_;
  BranchProbabilityInfo chances_;
  BlockFrequencyInfo frequencies_;
  Costs costs_;
  SmallVector<Loop*, 8> order_;
  DenseMap<const Loop*, unsigned> through_;
  SmallPtrSet<const BasicBlock*, 16> checked_;  // blocks with a planned checkpoint
  DenseMap<const BasicBlock*, unsigned> ahead_;
  FunctionPlan plan_;
};

}  // namespace

StringRef name_of(LoopKind kind) {
  static constexpr const char* kNames[kLoopKinds] = {"short", "covered", "each", "strip-mined",
                                                     "counted"};
  return kNames[static_cast<unsigned>(kind)];
}

FunctionPlan plan_function(Function& function, const TargetLibraryInfo& library,
                           const Surroundings& surroundings,
                           const SmallPtrSetImpl<const Function*>& circle,
                           const Summaries& summaries) {
  return Planner(function, library, surroundings, circle, summaries).run();
}

}  // namespace rubato::pass
