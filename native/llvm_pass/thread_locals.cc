// SPDX-License-Identifier: Apache-2.0
#include "thread_locals.h"

#include <llvm/IR/Constants.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/InstIterator.h>

#include "llvm_versions.h"

namespace rubato::pass {
namespace {

using namespace llvm;

constexpr StringRef kPrefix = "rubato.address_of.";

bool names_thread_local(const Value* value) {
  if (const auto* variable = dyn_cast<GlobalValue>(value)) return variable->isThreadLocal();
  const auto* expression = dyn_cast<ConstantExpr>(value);
  return expression != nullptr && any_of(expression->operands(), names_thread_local);
}

bool uses_thread_local(const Instruction& instruction) {
  return any_of(instruction.operands(), names_thread_local);
}

// The empty assembly keeps LLVM from finding out that the function always returns the same address.
Function* lookup_of(Module& module, GlobalValue& variable) {
  const std::string name = (kPrefix + variable.getName()).str();
  if (Function* made = module.getFunction(name)) return made;
  auto* type = FunctionType::get(variable.getType(), false);
  auto* made = Function::Create(type, GlobalValue::InternalLinkage, name, module);
  made->addFnAttr(Attribute::NoInline);
  made->addFnAttr(Attribute::NoUnwind);
  IRBuilder<> builder(BasicBlock::Create(module.getContext(), "", made));
  auto* same = FunctionType::get(variable.getType(), {variable.getType()}, false);
  builder.CreateRet(builder.CreateCall(InlineAsm::get(same, "", "=r,0,~{memory}", true),
                                       thread_local_address(builder, variable)));
  return made;
}

// Returns the address that the constant stands for, computed before `at`.
Value* computed(Value* constant, Instruction* at) {
  if (auto* variable = dyn_cast<GlobalValue>(constant)) {
    IRBuilder<> builder(at);
    return builder.CreateCall(lookup_of(*at->getModule(), *variable));
  }
  Instruction* made = cast<ConstantExpr>(constant)->getAsInstruction();
  made->insertBefore(at);
  made->setDebugLoc(at->getDebugLoc());
  for (Use& operand : made->operands()) {
    if (names_thread_local(operand)) operand.set(computed(operand, made));
  }
  return made;
}

void look_up_before(Instruction& use) {
  if (is_thread_local_address(use)) {
    use.replaceAllUsesWith(computed(use.getOperand(0), &use));
    use.eraseFromParent();
    return;
  }
  auto* variable = dyn_cast<PHINode>(&use);
  for (Use& operand : use.operands()) {
    if (!names_thread_local(operand)) continue;  // done already for an edge of the same block
    if (variable == nullptr) {
      operand.set(computed(operand, &use));
    } else {
      BasicBlock* from = variable->getIncomingBlock(operand);
      variable->setIncomingValueForBlock(from, computed(operand, from->getTerminator()));
    }
  }
}

void forget_constness(Module& module) {
  for (const char* name : {"__errno_location", "__h_errno_location", "pthread_self",
                           "__cxa_get_globals", "__cxa_get_globals_fast"}) {
    Function* callee = module.getFunction(name);
    if (callee == nullptr) continue;
    forget_memory_effects(*callee);
    for (User* user : callee->users()) {
      auto* call = dyn_cast<CallBase>(user);
      if (call != nullptr && call->getCalledFunction() == callee) forget_memory_effects(*call);
    }
  }
}

}  // namespace

unsigned look_up_afresh(Module& module) {
  forget_constness(module);
  SmallVector<Instruction*, 16> uses;
  for (Function& function : module) {
    for (Instruction& each : instructions(function)) {
      if (uses_thread_local(each)) uses.push_back(&each);
    }
  }
  for (Instruction* use : uses) look_up_before(*use);
  return static_cast<unsigned>(uses.size());
}

bool keeps_thread_local(const Function& function) {
  return any_of(instructions(function), uses_thread_local);
}

bool is_lookup(const Function& function) { return begins_with(function.getName(), kPrefix); }

}  // namespace rubato::pass
