// SPDX-License-Identifier: Apache-2.0
#include "mechanism/preempt/unsafe_code.h"

#include "mechanism/preempt/code_map.h"
#include "mechanism/preempt/interposed.h"
#include "mechanism/preempt/preempt_disable.h"

namespace rubato {

Status protect_unsafe_code() {
  if (Status mapped = code_map_build(); !mapped.ok()) return mapped;
  if (Status connected = interposers_attach(); !connected.ok()) return connected;
  set_async_signal_unsafe_predicate(&code_is_in_unsafe_object);
  return Done{};
}

}  // namespace rubato
