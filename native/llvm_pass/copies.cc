// SPDX-License-Identifier: Apache-2.0
#include "copies.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/MDBuilder.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>

#include "llvm_versions.h"

namespace rubato::pass {
namespace {

using namespace llvm;

// A piece takes a third of a microsecond in the cache, one or two from memory.
constexpr uint64_t kPieceBytes = 16 * 1024;

bool may_be_long(const Instruction& instruction) {
  const auto* copy = dyn_cast<MemIntrinsic>(&instruction);
  if (copy == nullptr || copy->isVolatile() || must_be_inline(*copy) ||
      copy->getParent()->isEHPad()) {
    return false;
  }
  const auto* size = dyn_cast<ConstantInt>(copy->getLength());
  return size == nullptr || size->getZExtValue() > kPieceBytes;
}

// Whole pieces first, from the front:
//     head: longer than a piece? -> piece
//     piece: move that much; checkpoint; longer than a piece still? -> piece
//     rest: the remainder, by the original call
void split_copy(MemIntrinsic& copy, Writer& writer) {
  LLVMContext& context = copy.getContext();
  IRBuilder<> builder(&copy);
  Value* size = copy.getLength();
  Value* piece = ConstantInt::get(size->getType(), kPieceBytes);
  Value* to = copy.getRawDest();
  auto* transfer = dyn_cast<MemTransferInst>(&copy);
  Value* from = transfer != nullptr ? transfer->getRawSource() : nullptr;
  Value* is_long = builder.CreateICmpUGT(size, piece);
  if (isa<MemMoveInst>(copy)) {
    Value* ahead = builder.CreateSub(builder.CreatePtrToInt(to, size->getType()),
                                     builder.CreatePtrToInt(from, size->getType()));
    is_long = builder.CreateAnd(is_long, builder.CreateICmpUGE(ahead, size));
  }
  BasicBlock* head = copy.getParent();
  BasicBlock* rest = head->splitBasicBlock(&copy, "rubato.rest");
  auto* loop = BasicBlock::Create(context, "rubato.piece", head->getParent(), rest);
  head->getTerminator()->eraseFromParent();
  builder.SetInsertPoint(head);
  builder.SetCurrentDebugLocation(copy.getDebugLoc());
  builder.CreateCondBr(is_long, loop, rest, MDBuilder(context).createBranchWeights(1, 1000));

  builder.SetInsertPoint(loop);
  const auto carry = [&](Value* value) {
    PHINode* carried = builder.CreatePHI(value->getType(), 2);
    carried->addIncoming(value, head);
    return carried;
  };
  PHINode* left = carry(size);
  PHINode* to_now = carry(to);
  PHINode* from_now = from != nullptr ? carry(from) : nullptr;
  auto* part = cast<MemIntrinsic>(copy.clone());
  part->setLength(piece);
  part->setDest(to_now);
  if (from_now != nullptr) cast<MemTransferInst>(part)->setSource(from_now);
  builder.Insert(part);
  Value* less = builder.CreateSub(left, piece);
  const auto advance = [&](Value* at) {
    return builder.CreateConstGEP1_64(builder.getInt8Ty(), at, kPieceBytes);
  };
  Value* to_next = advance(to_now);
  Value* from_next = from_now != nullptr ? advance(from_now) : nullptr;
  Value* goes_on = builder.CreateICmpUGT(less, piece);
  Instruction* end = builder.CreateCondBr(goes_on, loop, rest);
  const auto merge = [&](PHINode* carried, Value* next, Value* whole) {
    carried->addIncoming(next, loop);
    IRBuilder<> there(rest, rest->begin());
    PHINode* merged = there.CreatePHI(next->getType(), 2);
    merged->addIncoming(whole, head);
    merged->addIncoming(next, loop);
    return merged;
  };
  copy.setLength(merge(left, less, size));
  copy.setDest(merge(to_now, to_next, to));
  if (from_now != nullptr) transfer->setSource(merge(from_now, from_next, from));
  writer.checkpoint_before(end);
}

}  // namespace

unsigned split_copies(Function& function, Writer& writer) {
  SmallVector<MemIntrinsic*, 8> found;
  for (Instruction& each : instructions(function)) {
    if (may_be_long(each)) found.push_back(cast<MemIntrinsic>(&each));
  }
  for (MemIntrinsic* copy : found) split_copy(*copy, writer);
  return static_cast<unsigned>(found.size());
}

}  // namespace rubato::pass
