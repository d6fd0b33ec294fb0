// SPDX-License-Identifier: Apache-2.0
//
// Copies and fills of memory can be of any size, and are calls into libc that no checkpoint stands
// in: long ones are done in pieces, with a checkpoint after each. To be run on a function that may
// be left in the middle, after everything else.
#pragma once

#include <llvm/IR/Function.h>

#include "apply.h"

namespace rubato::pass {

// The number of copies and fills that go through a test of their size now. A copy that overlaps
// with its source from behind is left whole.
unsigned split_copies(llvm::Function& function, Writer& writer);

}  // namespace rubato::pass
