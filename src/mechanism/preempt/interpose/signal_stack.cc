// SPDX-License-Identifier: Apache-2.0
//
// Notes which fibers have set an alternate signal stack: the kernel keeps that by thread, and the
// runtime asks it only for these.
#include <signal.h>

#include "mechanism/preempt/interpose/fiber_side.h"
#include "mechanism/preempt/interpose/next.h"

namespace {

RUBATO_NEXT(sigaltstack);

[[gnu::tls_model("initial-exec")]] thread_local constinit bool t_has_set_one = false;

}  // namespace

RUBATO_INTERPOSED int sigaltstack(const stack_t* stack, stack_t* before) noexcept {
  if (stack != nullptr && rubato::interpose::on_own_tls()) t_has_set_one = true;
  return next_sigaltstack.get()(stack, before);
}

RUBATO_INTERPOSED bool rubato_interpose_signal_stack_set(void) { return t_has_set_one; }
