// SPDX-License-Identifier: Apache-2.0
//
// Binding threads to CPUs. Any thread, for itself only.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"

namespace rubato {

// The calling thread runs on `cpu` only, from the return on. Fails if the CPU does not exist, is
// offline, or is outside the process's cpuset.
Status pin_this_thread(uint32_t cpu);

// The calling thread may run on any of `cpus`: undoes a pin. Fails if none of them is available.
Status pin_this_thread_to_any(std::span<const uint32_t> cpus);

// The CPUs the calling thread may run on, ascending.
std::vector<uint32_t> allowed_cpus();

// The CPUs of `count` workers, one each: of those that the calling thread may run on, from the
// `first`-th on. Fails where there are too few.
Result<std::vector<uint32_t>> cpus_of_workers(uint32_t first, uint32_t count);

// The CPU the calling thread is on now, which may change at once if it is not pinned.
uint32_t current_cpu();

}  // namespace rubato
