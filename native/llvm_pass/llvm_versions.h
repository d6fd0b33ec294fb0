// SPDX-License-Identifier: Apache-2.0
//
// The differences between LLVM 14, 15, 16 and 19, the versions that the pass is built for: all
// conditions on the version are here. Included by the parts of the pass that need one of them.
#pragma once

#include <llvm/ADT/StringRef.h>
#include <llvm/Config/llvm-config.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstrTypes.h>
#include <llvm/IR/IntrinsicInst.h>

#if LLVM_VERSION_MAJOR >= 17
#include <llvm/TargetParser/Triple.h>
#else
#include <llvm/ADT/Triple.h>
#endif

namespace rubato::pass {

inline bool begins_with(llvm::StringRef text, llvm::StringRef prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

// From 16 on the address of a thread-local is an instruction; before, it is a constant like that of
// any other variable.
inline bool is_thread_local_address(const llvm::Instruction& instruction) {
#if LLVM_VERSION_MAJOR >= 16
  const auto* intrinsic = llvm::dyn_cast<llvm::IntrinsicInst>(&instruction);
  return intrinsic != nullptr &&
         intrinsic->getIntrinsicID() == llvm::Intrinsic::threadlocal_address;
#else
  static_cast<void>(instruction);
  return false;
#endif
}

inline llvm::Value* thread_local_address(llvm::IRBuilder<>& builder,
                                         llvm::GlobalValue& variable) {
#if LLVM_VERSION_MAJOR >= 16
  return builder.CreateThreadLocalAddress(&variable);
#else
  static_cast<void>(builder);
  return &variable;
#endif
}

// Marks a Function or a CallBase as one that may touch any memory, whatever its declaration says.
template <class T>
void forget_memory_effects(T& callee) {
#if LLVM_VERSION_MAJOR >= 16
  callee.removeFnAttr(llvm::Attribute::Memory);
#else
  for (const auto kind :
       {llvm::Attribute::ReadNone, llvm::Attribute::ReadOnly, llvm::Attribute::WriteOnly,
        llvm::Attribute::ArgMemOnly, llvm::Attribute::InaccessibleMemOnly,
        llvm::Attribute::InaccessibleMemOrArgMemOnly}) {
    callee.removeFnAttr(kind);
  }
#endif
}

// True for a copy or fill that must not become a call.
inline bool must_be_inline(const llvm::MemIntrinsic& copy) {
#if LLVM_VERSION_MAJOR >= 15
  if (llvm::isa<llvm::MemSetInlineInst>(copy)) return true;
#endif
  return llvm::isa<llvm::MemCpyInlineInst>(copy);
}

}  // namespace rubato::pass
