// SPDX-License-Identifier: Apache-2.0
//
// C11's threads are POSIX threads under other names in the C library: its mtx_t is a
// pthread_mutex_t, and so on, which the C library states in its own assertions. It calls itself
// there, past the interposed functions, so these exist by both names. Any thread.
#pragma once

#include <pthread.h>
#include <threads.h>

#include <cerrno>

namespace rubato::interpose {

[[gnu::always_inline]] inline int of_c11(int rc) {
  switch (rc) {
    case 0: return thrd_success;
    case ENOMEM: return thrd_nomem;
    case ETIMEDOUT: return thrd_timedout;
    case EBUSY: return thrd_busy;
    default: return thrd_error;
  }
}

inline pthread_mutex_t* of_c11(mtx_t* mutex) {
  static_assert(sizeof(mtx_t) == sizeof(pthread_mutex_t));
  return reinterpret_cast<pthread_mutex_t*>(mutex);
}

inline pthread_cond_t* of_c11(cnd_t* condition) {
  static_assert(sizeof(cnd_t) == sizeof(pthread_cond_t));
  return reinterpret_cast<pthread_cond_t*>(condition);
}

}  // namespace rubato::interpose
