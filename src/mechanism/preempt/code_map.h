// SPDX-License-Identifier: Apache-2.0
//
// The code map: the table in which a signal handler looks up the interrupted instruction before it
// switches the fiber away from it. Code of the C library, the loader, the C++ runtime and the
// unwinder is not reentrant between fibers: it may hold a lock of its own, which the runtime cannot
// see, or be half-way through the allocator's lists. A fiber in any other code may be switched,
// unless a non-preemptible region is open (preempt_disable.h) or the code is marked as never left
// (never_left.h). Code in no loaded object (made at run time, or loaded a moment ago) counts as
// unsafe. The interposed functions look up the code that they return to.
//
// code_kind() and code_is_in_unsafe_object() are for signal handlers too; the others are not, as
// they call the loader. Nothing here allocates. Any thread.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"
#include "mechanism/preempt/code_ranges.h"

namespace rubato {

// True if code of the object with this file name (a path or not) is unsafe: the C library, the
// loader, the kernel's vdso, C++ runtimes, unwinders, name service modules, character sets,
// allocators, sanitizers; not libm, whose functions are pure. `also` names more: prefixes of file
// names, separated by commas.
bool is_unsafe_object(std::string_view path, std::string_view also = {});

// Reads which objects are loaded. Call it before the first fiber can be interrupted. Objects named
// in the environment variable RUBATO_UNSAFE_CODE are unsafe as well. Fails if the C library is
// linked into the program, because its code could then not be told from the program's.
Status code_map_build();

// Call it after objects have been loaded or unloaded. Cheap if nothing has changed.
void code_map_refresh();

CodeKind code_kind(uintptr_t pc);

// The predicate for set_async_signal_unsafe_predicate (preempt_disable.h). Requires that no region
// was open when pc was interrupted: then code of no known object holds no lock of the loader, and
// the list of loaded objects is read again.
bool code_is_in_unsafe_object(uintptr_t pc);

}  // namespace rubato
