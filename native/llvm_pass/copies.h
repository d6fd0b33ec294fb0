// SPDX-License-Identifier: Apache-2.0
//
// Splits long copies and fills of memory into pieces, with a checkpoint after each. They can be of
// any size, and are calls into libc, which contains no checkpoint. Run on a function that may be
// left in the middle, after all other changes.
#pragma once

#include <llvm/IR/Function.h>

#include "apply.h"

namespace rubato::pass {

// Returns the number of copies and fills that now go through a test of their size. A copy that
// overlaps with its source from behind is left whole.
unsigned split_copies(llvm::Function& function, Writer& writer);

}  // namespace rubato::pass
