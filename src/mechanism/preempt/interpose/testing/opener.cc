// SPDX-License-Identifier: Apache-2.0
//
// A library that loads another one, which only its own search path leads to.
#include <dlfcn.h>

extern "C" void* rubato_open_by_own_path() { return dlopen("found_by_path.so", RTLD_NOW); }
