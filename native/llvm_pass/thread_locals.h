// SPDX-License-Identifier: Apache-2.0
//
// Makes the uses of thread-locals in a module safe against code that continues on another thread
// after a call: LLVM assumes that the address of a thread-local is the same all through a function,
// and would keep it in a register. Run before the first optimisation.
#pragma once

#include <llvm/IR/Module.h>

namespace rubato::pass {

// Makes every use of a thread-local get the address from a function that is never inlined or
// merged, and removes the constancy of functions that libc declares constant in a thread (errno's
// address, pthread_self). Returns the number of uses.
unsigned look_up_afresh(llvm::Module& module);

// True if the function itself still takes a thread-local's address. Then it must not be left in the
// middle.
bool keeps_thread_local(const llvm::Function& function);

// The functions that look_up_afresh has made.
bool is_lookup(const llvm::Function& function);

}  // namespace rubato::pass
