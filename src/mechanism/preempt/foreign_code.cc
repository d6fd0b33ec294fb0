// SPDX-License-Identifier: Apache-2.0
#include "mechanism/preempt/foreign_code.h"

#include "mechanism/preempt/code_map.h"
#include "mechanism/preempt/interposed.h"
#include "mechanism/preempt/section.h"

namespace rubato {

Status protect_foreign_code() {
  if (Status mapped = code_map_build(); !mapped.ok()) return mapped;
  if (Status connected = interposers_attach(); !connected.ok()) return connected;
  set_code_is_unsafe(&code_is_in_unsafe_object);
  return Done{};
}

}  // namespace rubato
