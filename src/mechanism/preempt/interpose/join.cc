// SPDX-License-Identifier: Apache-2.0
//
// Waiting for the end of a thread, which may itself wait for a fiber. (std::thread, std::async and
// C11 threads come here too.)
#include <pthread.h>
#include <threads.h>

#include <cerrno>
#include <cstdint>

#include "mechanism/preempt/interpose/c11.h"
#include "mechanism/preempt/interpose/fiber_side.h"
#include "mechanism/preempt/interpose/next.h"

namespace {

using rubato::interpose::Patience;

RUBATO_NEXT(pthread_join);
RUBATO_NEXT(pthread_tryjoin_np);
RUBATO_NEXT(pthread_clockjoin_np);

RUBATO_NEVER_LEFT int join(pthread_t thread, void** result) {
  for (Patience patience;;) {
    int rc = next_pthread_tryjoin_np.get()(thread, result);
    if (rc != EBUSY) return rc;
    if (patience.let_others_run()) continue;
    const timespec until = patience.next_pause_end({});
    rc = next_pthread_clockjoin_np.get()(thread, result, CLOCK_MONOTONIC, &until);
    if (rc != ETIMEDOUT) return rc;
  }
}

}  // namespace

using rubato::interpose::in_request;
using rubato::interpose::may_yield;

RUBATO_INTERPOSED int pthread_join(pthread_t thread, void** result) {
  if (!may_yield() || !in_request()) return next_pthread_join.get()(thread, result);
  return join(thread, result);
}

RUBATO_INTERPOSED int thrd_join(thrd_t thread, int* result) {
  void* returned = nullptr;
  const int rc = pthread_join(thread, &returned);
  if (rc == 0 && result != nullptr) {
    *result = static_cast<int>(reinterpret_cast<intptr_t>(returned));
  }
  return rubato::interpose::of_c11(rc);
}
