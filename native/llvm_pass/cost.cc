// SPDX-License-Identifier: Apache-2.0
#include "cost.h"

#include <llvm/ADT/SmallPtrSet.h>
#include <llvm/Analysis/ScalarEvolutionExpressions.h>
#include <llvm/Analysis/ValueTracking.h>
#include <llvm/IR/DataLayout.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Operator.h>

#include "llvm_versions.h"

namespace rubato::pass {
namespace {

using namespace llvm;

constexpr unsigned kUnknownCall = 100;  // a call to an unknown function
constexpr unsigned kLibraryCall = 100;  // strlen, malloc
constexpr unsigned kBlockCopy = 400;    // memcpy of unknown size
constexpr unsigned kCircleCall = 20;    // a recursive call: passes a checkpoint or ends at once
constexpr unsigned kAssembly = 20;
constexpr unsigned kAtomic = 20;
constexpr unsigned kIntegerDivision = 20;
constexpr unsigned kFloatDivision = 10;
constexpr unsigned kCachedLoad = 4;
constexpr unsigned kRandomLoad = 45;    // its address follows no pattern: the caches may miss
constexpr unsigned kChasingLoad = 350;  // the same, and it waits for the load before it
constexpr unsigned kStridedLoad = 8;    // a cache line per access, which prefetchers see
constexpr unsigned kFarLoad = 50;       // a page per access
constexpr uint64_t kLineBytes = 64;
constexpr uint64_t kPrefetchedBytes = 2048;
constexpr unsigned kLookBack = 24;      // instructions visited in the walk back from an address

constexpr uint64_t kCachedBytes = 16 * 1024;  // an object that, once used, stays in the cache

// The source of an address, within the loop only.
enum class Origin {
  kPattern,  // from the loop's own arithmetic
  kLoaded,   // from the value of another load
  kChain,    // from the value of a load in the round before: nothing is loaded ahead
};

// Comparisons are left out: the values they choose between are near by, as a rule.
Origin origin_of(const Value* address, const Loop& loop) {
  SmallVector<std::pair<const Value*, bool>, 8> todo{{address, false}};
  SmallPtrSet<const Value*, 16> seen;
  Origin origin = Origin::kPattern;
  while (!todo.empty() && seen.size() < kLookBack) {
    const auto [value, is_earlier] = todo.pop_back_val();
    const auto* made = dyn_cast<Instruction>(value);
    if (made == nullptr || !loop.contains(made) || !seen.insert(made).second) continue;
    if (isa<CmpInst>(made)) continue;
    if (isa<LoadInst>(made)) {
      if (is_earlier) return Origin::kChain;
      origin = Origin::kLoaded;
    }
    const bool carried = isa<PHINode>(made) && made->getParent() == loop.getHeader();
    for (const Value* operand : made->operands()) todo.emplace_back(operand, is_earlier || carried);
  }
  return origin;
}

// True for an address in a table or in a small array on the stack.
bool is_in_small_object(const Value* address, const DataLayout& layout) {
  const Value* object = getUnderlyingObject(address);
  Type* type = nullptr;
  if (const auto* variable = dyn_cast<GlobalVariable>(object)) type = variable->getValueType();
  if (const auto* local = dyn_cast<AllocaInst>(object)) {
    type = local->isArrayAllocation() ? nullptr : local->getAllocatedType();
  }
  if (type == nullptr || !type->isSized()) return false;
  const TypeSize size = layout.getTypeAllocSize(type);
  return !size.isScalable() && size.getFixedValue() <= kCachedBytes;
}

unsigned in_registers(const Type* type) {
  const TypeSize bits = type->getPrimitiveSizeInBits();
  if (!type->isVectorTy() || bits.isScalable()) return 1;
  return std::max<unsigned>(1, static_cast<unsigned>(bits.getFixedValue() / 256));
}

unsigned of_division(const BinaryOperator& division) {
  if (isa<Constant>(division.getOperand(1))) return 4;
  const auto* vector = dyn_cast<FixedVectorType>(division.getType());
  return kIntegerDivision * (vector != nullptr ? vector->getNumElements() : 1);
}

bool is_free(const Instruction& instruction) {
  if (isa<PHINode>(instruction) || isa<BitCastInst>(instruction)) return true;
  if (const auto* address = dyn_cast<GetElementPtrInst>(&instruction)) {
    return address->hasAllConstantIndices();
  }
  const auto* intrinsic = dyn_cast<IntrinsicInst>(&instruction);
  return intrinsic != nullptr && (intrinsic->isAssumeLikeIntrinsic() ||
                                  intrinsic->isLifetimeStartOrEnd());
}

}  // namespace

unsigned Costs::of(const Instruction& instruction) const {
  if (is_free(instruction)) return 0;
  if (const auto* call = dyn_cast<CallBase>(&instruction)) return of_call(*call);
  if (instruction.isAtomic() && !isa<LoadInst, StoreInst>(instruction)) return kAtomic;
  switch (instruction.getOpcode()) {
    case Instruction::Load:
      return of_load(instruction);
    case Instruction::UDiv:
    case Instruction::SDiv:
    case Instruction::URem:
    case Instruction::SRem:
      return of_division(cast<BinaryOperator>(instruction));
    case Instruction::FDiv:
    case Instruction::FRem:
      return kFloatDivision * in_registers(instruction.getType());
    default:
      return in_registers(instruction.getType());
  }
}

bool Costs::checkpoints(const Instruction& instruction) const {
  const auto* call = dyn_cast<CallBase>(&instruction);
  const Summary* summary = call != nullptr ? summary_of(*call) : nullptr;
  // Another module's copy of an inline function may be linked instead, without a checkpoint.
  return summary != nullptr && summary->checkpoints &&
         call->getCalledFunction()->hasExactDefinition();
}

bool Costs::may_call_back(const CallBase& call) const {
  if (isa<IntrinsicInst>(call) || call.isInlineAsm()) return false;
  if (call.doesNotReturn() || call.hasFnAttr(Attribute::Cold)) return false;
  if (call.hasFnAttr(Attribute::NoCallback)) return false;
  const Function* callee = call.getCalledFunction();
  if (callee == nullptr) return true;
  return callee->isDeclaration() && !is_library(*callee);
}

// Functions of the C and C++ libraries that are not templates make no callback, except the two that
// take a function.
bool Costs::is_library(const Function& callee) const {
  const StringRef name = callee.getName();
  LibFunc which;
  if (library_.getLibFunc(callee, which)) return name != "qsort" && name != "bsearch";
  for (const char* prefix : {"_ZSt", "_ZNSt", "_ZNKSt", "__cxa_", "_Unwind_", "pthread_mutex_"}) {
    if (begins_with(name, prefix)) return true;
  }
  return false;
}

const Summary* Costs::summary_of(const CallBase& call) const {
  const Function* callee = call.getCalledFunction();
  const auto found = callee != nullptr ? summaries_.find(callee) : summaries_.end();
  return found != summaries_.end() ? &found->second : nullptr;
}

unsigned Costs::of_call(const CallBase& call) const {
  if (call.isInlineAsm()) return kAssembly;
  if (const Summary* summary = summary_of(call)) return 2 + summary->distance;
  if (call.getCalledFunction() != nullptr && circle_.contains(call.getCalledFunction())) {
    return kCircleCall;
  }
  if (isa<IntrinsicInst>(call)) {
    switch (call.getIntrinsicID()) {
      case Intrinsic::memcpy:
      case Intrinsic::memmove:
      case Intrinsic::memset:
        break;
      case Intrinsic::sqrt:
        return kFloatDivision * in_registers(call.getType());
      case Intrinsic::masked_gather:
        return kRandomLoad;
      default:
        return 2 * in_registers(call.getType());
    }
    const auto* size = dyn_cast<ConstantInt>(call.getArgOperand(2));
    if (size == nullptr) return kBlockCopy;
    return 4 + static_cast<unsigned>(std::min<uint64_t>(size->getZExtValue() / 32, 1u << 20));
  }
  return call.getCalledFunction() != nullptr && is_library(*call.getCalledFunction())
             ? kLibraryCall
             : kUnknownCall;
}

unsigned Costs::of_recurrence(const SCEVAddRecExpr& recurrence) const {
  const auto* step = dyn_cast<SCEVConstant>(recurrence.getStepRecurrence(evolution_));
  if (step == nullptr) return kFarLoad;
  const uint64_t bytes = step->getAPInt().abs().getLimitedValue();
  if (bytes < kLineBytes) return 1;
  return bytes <= kPrefetchedBytes ? kStridedLoad : kFarLoad;
}

unsigned Costs::of_load(const Instruction& load) const {
  const Value* address = getLoadStorePointerOperand(&load);
  const Loop* loop = loops_.getLoopFor(load.getParent());
  if (loop == nullptr || loop->isLoopInvariant(const_cast<Value*>(address))) {
    return in_registers(load.getType());
  }
  if (evolution_.isSCEVable(address->getType())) {
    const SCEV* pattern = evolution_.getSCEV(const_cast<Value*>(address));
    if (const auto* recurrence = dyn_cast<SCEVAddRecExpr>(pattern)) {
      const unsigned registers = in_registers(load.getType());
      return std::max(registers, recurrence->isAffine() ? of_recurrence(*recurrence) : kFarLoad);
    }
  }
  if (is_in_small_object(address, load.getModule()->getDataLayout())) return kCachedLoad;
  return origin_of(address, *loop) == Origin::kChain ? kChasingLoad : kRandomLoad;
}

}  // namespace rubato::pass
