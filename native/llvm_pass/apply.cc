// SPDX-License-Identifier: Apache-2.0
#include "apply.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/MDBuilder.h>
#include <llvm/IR/Dominators.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>
#include <llvm/Transforms/Utils/PromoteMemToReg.h>

#include <string>

#include "options.h"

namespace rubato::pass {
namespace {

using namespace llvm;

constexpr uint32_t kUnlikely = 1u << 20;
constexpr CallingConv::ID kKeepsRegisters = CallingConv::PreserveAll;

// The word's offset from the thread pointer is the same in all threads, so it may stay in a
// register; in a program that contains the word it is a constant. The instruction selector of
// unoptimised builds cannot carry a flag to a branch: there `set_sign` puts the flag in a register.
InlineAsm* decrement(LLVMContext& context, bool as_flag) {
  Type* taken = Type::getInt8Ty(context);
  const std::string sign = as_flag ? "={@ccs}" : "=q";
  const std::string set_sign = as_flag ? "" : "\n\tsets $0";
  if (options().local_exec) {
    return InlineAsm::get(FunctionType::get(taken, false),
                          "decl %fs:rubato_checkpoint_budget@TPOFF" + set_sign,
                          sign + (as_flag ? "" : ",~{flags}"), true);
  }
  Type* results = StructType::get(taken, Type::getInt64Ty(context));
  return InlineAsm::get(
      FunctionType::get(results, false),
      "movq rubato_checkpoint_budget@GOTTPOFF(%rip), $1\n\tdecl %fs:($1)" + set_sign,
      sign + ",=&r" + (as_flag ? "" : ",~{flags}"), true);
}

// The last x of the chunk that goes on: plan.rounds - 1 whole rounds ahead if the bound is further
// away than that, otherwise the bound itself. x and bound count as unsigned; unless the comparison
// is for equality, the code first checks that the way to the bound is positive.
Value* chunk_bound(IRBuilder<>& at, const LoopPlan& plan, Value* start) {
  const Bounded& bounded = plan.bounded;
  const bool is_pointer = start->getType()->isPointerTy();
  Type* number = IntegerType::get(at.getContext(), bounded.step.getBitWidth());
  const auto plain = [&](Value* value) {
    return is_pointer ? at.CreatePtrToInt(value, number) : value;
  };
  Value* first = plain(start);
  if (!bounded.offset.isZero()) {
    first = at.CreateAdd(first, ConstantInt::get(number, bounded.offset));
  }
  const bool or_equal = CmpInst::isNonStrictPredicate(bounded.predicate);
  const APInt stride = bounded.step.abs();
  const APInt ahead = stride * APInt(stride.getBitWidth(), plan.rounds - 1);
  const bool rises = bounded.step.isStrictlyPositive();
  Value* bound = plain(bounded.bound);
  Value* left = rises ? at.CreateSub(bound, first) : at.CreateSub(first, bound);
  Value* is_far = at.CreateICmpUGT(left, ConstantInt::get(number, ahead));
  if (bounded.predicate != CmpInst::ICMP_NE) {
    is_far = at.CreateAnd(is_far, at.CreateICmp(bounded.predicate, first, bound));
  }
  const APInt reach = or_equal ? ahead - stride : ahead;
  Value* limit = at.CreateAdd(first, ConstantInt::get(number, rises ? reach : -reach));
  if (is_pointer) limit = at.CreateIntToPtr(limit, start->getType());
  return at.CreateSelect(is_far, limit, bounded.bound, "rubato.limit");
}

}  // namespace

Writer::Writer(Module& module, bool optimised)
    : module_(module),
      optimised_(optimised),
      decrement_(decrement(module.getContext(), true)),
      plain_decrement_(decrement(module.getContext(), false)),
      unlikely_(MDBuilder(module.getContext()).createBranchWeights(1, kUnlikely)) {
  auto* type = FunctionType::get(Type::getVoidTy(module.getContext()), false);
  enter_ = module.getOrInsertFunction("rubato_checkpoint_enter", type);
  auto* enter = cast<Function>(enter_.getCallee());
  enter->setCallingConv(kKeepsRegisters);
  enter->addFnAttr(Attribute::Cold);
  enter->addFnAttr(Attribute::NoUnwind);
}

void Writer::checkpoint_before(Instruction* at) {
  IRBuilder<> builder(at);
  const bool as_flag = optimised_ && !at->getFunction()->hasOptNone();
  Value* taken = builder.CreateCall(as_flag ? decrement_ : plain_decrement_);
  if (taken->getType()->isStructTy()) taken = builder.CreateExtractValue(taken, 0);
  taken = builder.CreateICmpNE(taken, builder.getInt8(0));
  Instruction* cold = SplitBlockAndInsertIfThen(taken, at, false, unlikely_);
  IRBuilder<> there(cold);
  there.SetCurrentDebugLocation(at->getDebugLoc());
  there.CreateCall(enter_)->setCallingConv(kKeepsRegisters);
  ++written_;
}

// header .. latch becomes the inner loop of
//     outer: variables of the header; limit = the bound, or so many rounds ahead if that is nearer
//     header .. latch: as before, but against the limit
//     end: out of it if that was all; else checkpoint, and to outer
void Writer::strip_mine(const LoopPlan& plan) {
  BasicBlock* before = plan.entry_end->getParent();
  BasicBlock* header = plan.header;
  auto* branch = cast<BranchInst>(plan.latch_ends.front());
  BasicBlock* latch = branch->getParent();
  const unsigned way_out = branch->getSuccessor(0) == header ? 1 : 0;
  BasicBlock* exit = branch->getSuccessor(way_out);
  Function* function = header->getParent();
  LLVMContext& context = module_.getContext();

  auto* outer = BasicBlock::Create(context, "rubato.chunk", function, header);
  plan.entry_end->replaceSuccessorWith(header, outer);
  Value* start = nullptr;
  SmallVector<std::pair<PHINode*, PHINode*>, 8> variables;
  for (PHINode& inner : header->phis()) {
    auto* carried = PHINode::Create(inner.getType(), 2, inner.getName() + ".chunk", outer);
    carried->addIncoming(inner.getIncomingValueForBlock(before), before);
    const int from_before = inner.getBasicBlockIndex(before);
    inner.setIncomingValue(static_cast<unsigned>(from_before), carried);
    inner.setIncomingBlock(static_cast<unsigned>(from_before), outer);
    variables.emplace_back(carried, &inner);
    if (&inner == plan.bounded.variable) start = carried;
  }
  IRBuilder<> builder(outer);
  Value* limit = chunk_bound(builder, plan, start);
  builder.CreateBr(header);

  auto* end = BasicBlock::Create(context, "rubato.chunk.end", function, latch->getNextNode());
  builder.SetInsertPoint(branch);
  const Bounded& bounded = plan.bounded;
  Value* goes_on = builder.CreateICmp(bounded.predicate, bounded.x, limit);
  builder.CreateCondBr(goes_on, header, end)->copyMetadata(*branch);
  builder.SetInsertPoint(end);
  builder.SetCurrentDebugLocation(branch->getDebugLoc());
  Value* has_more = builder.CreateICmp(bounded.predicate, bounded.x, bounded.bound);
  auto* more = BasicBlock::Create(context, "rubato.chunk.more", function, end->getNextNode());
  builder.CreateCondBr(has_more, more, exit);
  builder.SetInsertPoint(more);
  Instruction* last = builder.CreateBr(outer);
  exit->replacePhiUsesWith(latch, end);
  for (const auto& [carried, inner] : variables) {
    carried->addIncoming(inner->getIncomingValueForBlock(latch), more);
  }
  branch->eraseFromParent();
  checkpoint_before(last);
}

// The countdown stands at the start of a round, where a test that is hardly ever true does not
// affect the code layout: in front of a latch's branch it would keep the loop from being laid out
// with its exit at the end.
void Writer::count_rounds(const LoopPlan& plan, AllocaInst* counter) {
  Instruction* start = &*plan.header->getFirstInsertionPt();
  IRBuilder<> builder(start);
  Value* left = builder.CreateLoad(builder.getInt32Ty(), counter);
  Value* charge = builder.getInt32(plan.charge);
  builder.CreateStore(builder.CreateSub(left, charge), counter);
  Value* used_up = builder.CreateICmpULT(left, charge);
  Instruction* detour = SplitBlockAndInsertIfThen(used_up, start, false, unlikely_);
  builder.SetInsertPoint(detour);
  builder.CreateStore(builder.getInt32(options().distance), counter);
  checkpoint_before(detour);
}

// One counter per function serves all its counted loops, so that an inner loop of few rounds
// continues the count. The counter is a variable in memory only until all its uses are there.
void Writer::count_loops(Function& function, const FunctionPlan& plan) {
  IRBuilder<> builder(&function.getEntryBlock(), function.getEntryBlock().begin());
  AllocaInst* counter = builder.CreateAlloca(builder.getInt32Ty(), nullptr, "rubato.counter");
  ConstantInt* full = builder.getInt32(options().distance);
  builder.CreateStore(full, counter);
  for (const LoopPlan& loop : plan.loops) {
    if (loop.outermost && loop.entry_end != nullptr) {
      IRBuilder<>(loop.entry_end).CreateStore(full, counter);
    }
    if (loop.kind == LoopKind::kCounted) count_rounds(loop, counter);
  }
  DominatorTree tree(function);
  PromoteMemToReg({counter}, tree);
}

void Writer::carry_out(Function& function, const FunctionPlan& plan) {
  bool counts = false;
  for (const LoopPlan& loop : plan.loops) {
    counts |= loop.kind == LoopKind::kCounted;
    if (loop.kind == LoopKind::kStripMined) strip_mine(loop);
    if (loop.kind != LoopKind::kEach) continue;
    for (Instruction* end : loop.latch_ends) checkpoint_before(end);
  }
  for (Instruction* point : plan.points) checkpoint_before(point);
  if (counts) count_loops(function, plan);
}

}  // namespace rubato::pass
