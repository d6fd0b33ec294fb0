// SPDX-License-Identifier: Apache-2.0
#include "runtime/stop_signals.h"

#include <unistd.h>

#include <atomic>

namespace rubato {
namespace {

// Read by the handler, which may run on any thread: sequentially consistent, it is not a hot path.
std::atomic<Runtime*> g_runtime{nullptr};
std::atomic<int> g_signals{0};

// Only calls that are safe in a signal handler: Runtime::stop says that it is.
void on_signal(int) {
  if (g_signals.fetch_add(1) > 0) _exit(1);
  if (Runtime* runtime = g_runtime.load()) runtime->stop();
}

}  // namespace

Result<std::unique_ptr<StopSignals>> StopSignals::install(Runtime& runtime) {
  Runtime* none = nullptr;
  if (!g_runtime.compare_exchange_strong(none, &runtime)) {
    return Error{"handle_signals: another server of this process handles them"};
  }
  g_signals.store(0);
  return std::unique_ptr<StopSignals>(new StopSignals());
}

StopSignals::StopSignals() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigaction(SIGTERM, &action, &term_before_);
  sigaction(SIGINT, &action, &int_before_);
}

StopSignals::~StopSignals() {
  sigaction(SIGTERM, &term_before_, nullptr);
  sigaction(SIGINT, &int_before_, nullptr);
  g_runtime.store(nullptr);
}

}  // namespace rubato
