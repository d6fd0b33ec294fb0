// SPDX-License-Identifier: Apache-2.0
//
// Writer: writes the planned checkpoints into a function. One writer per module.
//
// A checkpoint is one decrement of the thread's word by inline assembly, so that no part of the
// compiler can keep the word's address, which differs after a change of threads; and on the cold
// path a call that keeps every register, so that the hot path spills none.
#pragma once

#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/Module.h>

#include "plan.h"

namespace rubato::pass {

class Writer {
 public:
  // `optimised`: not compiled with -O0.
  Writer(llvm::Module& module, bool optimised);

  // Splits blocks; `plan` is used up.
  void carry_out(llvm::Function& function, const FunctionPlan& plan);

  void checkpoint_before(llvm::Instruction* at);

  unsigned written() const { return written_; }

 private:
  void strip_mine(const LoopPlan& plan);
  void count_loops(llvm::Function& function, const FunctionPlan& plan);
  void count_rounds(const LoopPlan& plan, llvm::AllocaInst* counter);

  llvm::Module& module_;
  llvm::FunctionCallee enter_;
  bool optimised_;
  llvm::InlineAsm* decrement_;        // returns the sign as a flag
  llvm::InlineAsm* plain_decrement_;  // returns the sign in a register
  llvm::MDNode* unlikely_;
  unsigned written_ = 0;
};

}  // namespace rubato::pass
