// SPDX-License-Identifier: Apache-2.0
//
// Makes the uses of thread-locals in a module safe against code that continues on another thread
// after a call: LLVM takes the address of a thread-local for the same all through a function, and
// would keep it in a register. To be run before the first optimisation.
#pragma once

#include <llvm/IR/Module.h>

namespace rubato::pass {

// Every use of a thread-local asks a function that is never inlined or merged for its address, and
// what libc declares as constant in a thread (errno's address, pthread_self) is constant no longer.
// The number of uses.
unsigned look_up_afresh(llvm::Module& module);

// Is a thread-local's address still taken in the function itself? Then it must not be left in the
// middle.
bool keeps_thread_local(const llvm::Function& function);

// The functions that look_up_afresh has made.
bool is_lookup(const llvm::Function& function);

}  // namespace rubato::pass
