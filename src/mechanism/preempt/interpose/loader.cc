// SPDX-License-Identifier: Apache-2.0
//
// Functions of libc that call the program back while they hold a lock of theirs, of the loader or
// of fork: such a callback is a non-preemptible region. Those that change what is loaded also have
// the code map read again. iconv_open and others of libc open objects without a call of these, and
// may be left there while they wait; so who waits for them here may be left, too.
//
// dlopen looks at its return address for the caller's search path (RUNPATH, $ORIGIN), so on plain
// threads it is jumped to, not called; the target is compiled with sibling calls for this. The code
// that it loads is unknown, and the map is read again when that code is first interrupted. dlsym
// makes no callback, and RTLD_NEXT depends on its caller, so it is left alone.
#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include "mechanism/preempt/interpose/fiber_side.h"
#include "mechanism/preempt/interpose/next.h"

namespace {

using rubato::interpose::on_plain_thread;
using rubato::interpose::WaitingGuard;

RUBATO_NEXT(dl_iterate_phdr);
RUBATO_NEXT(dlopen);
RUBATO_NEXT(dlmopen);
RUBATO_NEXT(dlclose);
RUBATO_NEXT(fork);

RUBATO_NEVER_LEFT void* dlopen_in_region(const char* file, int mode, const void* caller) {
  const WaitingGuard guard(caller);
  void* object = next_dlopen.get()(file, mode);
  rubato::interpose::code_changed();
  return object;
}

RUBATO_NEVER_LEFT void* dlmopen_in_region(Lmid_t space, const char* file, int mode,
                                          const void* caller) {
  const WaitingGuard guard(caller);
  void* object = next_dlmopen.get()(space, file, mode);
  rubato::interpose::code_changed();
  return object;
}

}  // namespace

RUBATO_INTERPOSED int dl_iterate_phdr(int (*callback)(dl_phdr_info*, size_t, void*),
                                      void* argument) {
  if (on_plain_thread()) return next_dl_iterate_phdr.get()(callback, argument);
  const WaitingGuard guard(RUBATO_CALLER);
  return next_dl_iterate_phdr.get()(callback, argument);
}

RUBATO_INTERPOSED void* dlopen(const char* file, int mode) noexcept {
  if (on_plain_thread()) return next_dlopen.get()(file, mode);
  return dlopen_in_region(file, mode, RUBATO_CALLER);
}

RUBATO_INTERPOSED void* dlmopen(Lmid_t space, const char* file, int mode) noexcept {
  if (on_plain_thread()) return next_dlmopen.get()(space, file, mode);
  return dlmopen_in_region(space, file, mode, RUBATO_CALLER);
}

RUBATO_INTERPOSED int dlclose(void* object) noexcept {
  if (on_plain_thread()) {
    const int rc = next_dlclose.get()(object);
    rubato::interpose::code_changed();
    return rc;
  }
  const WaitingGuard guard(RUBATO_CALLER);
  const int rc = next_dlclose.get()(object);
  rubato::interpose::code_changed();
  return rc;
}

// The child has one thread and no worker: regions open there stay open, and the handler of fork
// (fiber_side.cc) has made the thread a plain one.
RUBATO_INTERPOSED pid_t fork() noexcept {
  if (on_plain_thread()) return next_fork.get()();
  rubato::interpose::enter();
  const pid_t child = next_fork.get()();
  if (!on_plain_thread()) rubato::interpose::leave(RUBATO_CALLER);
  return child;
}
