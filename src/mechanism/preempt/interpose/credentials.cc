// SPDX-License-Identifier: Apache-2.0
//
// Changes of user and groups, which a request makes as the thread of its worker: the kernel keeps
// them by thread, and libc finds the caller among its threads by the thread pointer.
#include <grp.h>
#include <unistd.h>

#include <cerrno>

#include "mechanism/preempt/interpose/fiber_side.h"
#include "mechanism/preempt/interpose/next.h"

namespace {

using rubato::interpose::may_yield;

RUBATO_NEXT(setuid);
RUBATO_NEXT(seteuid);
RUBATO_NEXT(setreuid);
RUBATO_NEXT(setresuid);
RUBATO_NEXT(setgid);
RUBATO_NEXT(setegid);
RUBATO_NEXT(setregid);
RUBATO_NEXT(setresgid);
RUBATO_NEXT(setgroups);
RUBATO_NEXT(initgroups);

template <class Call>
struct Made {
  static void make(void* self) {
    auto& made = *static_cast<Made*>(self);
    made.rc = made.call();
    made.error = errno;  // the thread's
  }

  Call call;
  int rc = 0;
  int error = 0;
};

// A fiber that has a TLS block is not on its thread's.
template <class Function, class... Arguments>
int as_thread(Function* function, Arguments... arguments) {
  if (!may_yield()) return function(arguments...);
  Made made{[=] { return function(arguments...); }};
  rubato::interpose::call_as_thread(&decltype(made)::make, &made);
  if (made.rc == -1) errno = made.error;
  return made.rc;
}

}  // namespace

RUBATO_INTERPOSED int setuid(uid_t id) noexcept { return as_thread(next_setuid.get(), id); }

RUBATO_INTERPOSED int seteuid(uid_t id) noexcept { return as_thread(next_seteuid.get(), id); }

RUBATO_INTERPOSED int setreuid(uid_t real, uid_t effective) noexcept {
  return as_thread(next_setreuid.get(), real, effective);
}

RUBATO_INTERPOSED int setresuid(uid_t real, uid_t effective, uid_t saved) noexcept {
  return as_thread(next_setresuid.get(), real, effective, saved);
}

RUBATO_INTERPOSED int setgid(gid_t id) noexcept { return as_thread(next_setgid.get(), id); }

RUBATO_INTERPOSED int setegid(gid_t id) noexcept { return as_thread(next_setegid.get(), id); }

RUBATO_INTERPOSED int setregid(gid_t real, gid_t effective) noexcept {
  return as_thread(next_setregid.get(), real, effective);
}

RUBATO_INTERPOSED int setresgid(gid_t real, gid_t effective, gid_t saved) noexcept {
  return as_thread(next_setresgid.get(), real, effective, saved);
}

RUBATO_INTERPOSED int setgroups(size_t count, const gid_t* groups) noexcept {
  return as_thread(next_setgroups.get(), count, groups);
}

// Reads the group file first, with locks and files as any other code of libc.
RUBATO_INTERPOSED int initgroups(const char* user, gid_t group) {
  return as_thread(next_initgroups.get(), user, group);
}
