// SPDX-License-Identifier: Apache-2.0
#include "thread_locals.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>

namespace rubato::pass {
namespace {

using namespace llvm;

constexpr StringRef kPrefix = "rubato.address_of.";

GlobalVariable* thread_local_of(const Instruction& instruction) {
  const auto* intrinsic = dyn_cast<IntrinsicInst>(&instruction);
  if (intrinsic == nullptr || intrinsic->getIntrinsicID() != Intrinsic::threadlocal_address) {
    return nullptr;
  }
  return dyn_cast<GlobalVariable>(intrinsic->getArgOperand(0)->stripPointerCasts());
}

// The empty assembly keeps LLVM from finding out that the function always gives the same.
Function* lookup_of(Module& module, GlobalVariable& variable) {
  const std::string name = (kPrefix + variable.getName()).str();
  if (Function* made = module.getFunction(name)) return made;
  LLVMContext& context = module.getContext();
  auto* type = FunctionType::get(variable.getType(), false);
  auto* made = Function::Create(type, GlobalValue::InternalLinkage, name, module);
  made->addFnAttr(Attribute::NoInline);
  made->addFnAttr(Attribute::NoUnwind);
  IRBuilder<> builder(BasicBlock::Create(context, "", made));
  auto* nothing = FunctionType::get(builder.getVoidTy(), false);
  builder.CreateCall(InlineAsm::get(nothing, "", "~{memory}", true));
  builder.CreateRet(builder.CreateThreadLocalAddress(&variable));
  return made;
}

void forget_constness(Module& module) {
  for (const char* name : {"__errno_location", "__h_errno_location", "pthread_self",
                           "__cxa_get_globals", "__cxa_get_globals_fast"}) {
    Function* callee = module.getFunction(name);
    if (callee == nullptr) continue;
    callee->removeFnAttr(Attribute::Memory);
    for (User* user : callee->users()) {
      auto* call = dyn_cast<CallBase>(user);
      if (call != nullptr && call->getCalledFunction() == callee) {
        call->removeFnAttr(Attribute::Memory);
      }
    }
  }
}

}  // namespace

unsigned look_up_afresh(Module& module) {
  forget_constness(module);
  SmallVector<std::pair<Instruction*, GlobalVariable*>, 16> uses;
  for (Function& function : module) {
    for (Instruction& each : instructions(function)) {
      if (GlobalVariable* variable = thread_local_of(each)) uses.emplace_back(&each, variable);
    }
  }
  for (const auto& [use, variable] : uses) {
    auto* call = CallInst::Create(lookup_of(module, *variable), "", use->getIterator());
    call->setDebugLoc(use->getDebugLoc());
    use->replaceAllUsesWith(call);
    use->eraseFromParent();
  }
  return static_cast<unsigned>(uses.size());
}

bool keeps_thread_local(const Function& function) {
  for (const Instruction& each : instructions(function)) {
    if (thread_local_of(each) != nullptr) return true;
    for (const Value* operand : each.operands()) {
      const auto* variable = dyn_cast<GlobalVariable>(operand->stripPointerCasts());
      if (variable != nullptr && variable->isThreadLocal()) return true;
    }
  }
  return false;
}

bool is_lookup(const Function& function) { return function.getName().starts_with(kPrefix); }

}  // namespace rubato::pass
