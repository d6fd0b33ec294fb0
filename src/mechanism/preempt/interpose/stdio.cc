// SPDX-License-Identifier: Apache-2.0
//
// Locks of streams that a program holds over several calls. (Within one call libc holds them in its
// own code, where nothing is switched.) These locks belong to a thread and count.
#include <cerrno>
#include <cstdio>

#include "mechanism/preempt/interpose/fiber_side.h"
#include "mechanism/preempt/interpose/next.h"

namespace {

using rubato::interpose::LockKind;
using rubato::interpose::on_plain_thread;

RUBATO_NEXT(flockfile);
RUBATO_NEXT(ftrylockfile);
RUBATO_NEXT(funlockfile);

int attempt(void* stream) {
  return next_ftrylockfile.get()(static_cast<FILE*>(stream)) == 0 ? 0 : EBUSY;
}

constexpr LockKind kStream{attempt, nullptr};

}  // namespace

RUBATO_INTERPOSED void flockfile(FILE* stream) noexcept {
  if (on_plain_thread()) return next_flockfile.get()(stream);
  rubato::interpose::take(kStream, stream, {}, RUBATO_CALLER, [=] {
    next_flockfile.get()(stream);
    return 0;
  });
}

RUBATO_INTERPOSED int ftrylockfile(FILE* stream) noexcept {
  if (on_plain_thread()) return next_ftrylockfile.get()(stream);
  return rubato::interpose::try_take(kStream, stream, RUBATO_CALLER) == 0 ? 0 : -1;
}

RUBATO_INTERPOSED void funlockfile(FILE* stream) noexcept {
  next_funlockfile.get()(stream);
  if (!on_plain_thread()) rubato::interpose::give(stream, RUBATO_CALLER);
}
