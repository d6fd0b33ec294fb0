// SPDX-License-Identifier: Apache-2.0
#include "cli/common/interrupt.h"

#include <csignal>

namespace rubato::cli {
namespace {

std::atomic<bool> g_interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free);

void note_interrupt(int) { g_interrupted.store(true, std::memory_order_relaxed); }

}  // namespace

const std::atomic<bool>& interrupt_flag() { return g_interrupted; }

void watch_interrupts() {
  struct sigaction action{};
  action.sa_handler = note_interrupt;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
}

}  // namespace rubato::cli
