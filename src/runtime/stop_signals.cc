// SPDX-License-Identifier: Apache-2.0
#include "runtime/stop_signals.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <string_view>

#include "base/log.h"

namespace rubato {
namespace {

// Read by the handler, which may run on any thread: sequentially consistent, it is not a hot path.
std::atomic<Runtime*> g_runtime{nullptr};
std::atomic<int> g_signals{0};
std::atomic<int> g_notified{-1};

// The time after the drain limit that a worker may take to notice it. A worker that runs a request
// without checkpoints never does, and the process ends without it.
constexpr unsigned kGraceSeconds = 1;

// Only calls that are safe in a signal handler: Runtime::stop says that it is.
void begin_stop() {
  if (Runtime* runtime = g_runtime.load()) {
    alarm(static_cast<unsigned>(runtime->settings().drain_limit().seconds() + 1) + kGraceSeconds);
    runtime->stop();
  }
  constexpr uint64_t kOnce = 1;
  if (const int notified = g_notified.load(); notified >= 0) {
    static_cast<void>(!write(notified, &kOnce, sizeof kOnce));
  }
}

// The code that was interrupted may be about to look at errno.
void on_signal(int) {
  if (g_signals.fetch_add(1) > 0) _exit(1);
  const int interrupted = errno;
  begin_stop();
  errno = interrupted;
}

void on_alarm(int) {
  log_line(LogLevel::kError, LogEvent::kStop,
           "the drain limit passed with a worker stuck in a request");
  _exit(1);
}

std::string_view notice_of(int signal) {
  switch (signal) {
    case SIGHUP: return "SIGHUP ignored: nothing is reloaded; SIGTERM stops the server";
    case SIGUSR1: return "SIGUSR1 ignored; SIGTERM stops the server";
    default: return "SIGUSR2 ignored; SIGTERM stops the server";
  }
}

void on_harmless(int signal) {
  log_line(LogLevel::kWarning, LogEvent::kSignal, notice_of(signal));
}

}  // namespace

Result<std::unique_ptr<StopSignals>> StopSignals::install(Runtime& runtime, int notified) {
  Runtime* none = nullptr;
  if (!g_runtime.compare_exchange_strong(none, &runtime)) {
    return Error{"handle_signals: another server of this process handles them"};
  }
  g_signals.store(0);
  g_notified.store(notified);
  return std::unique_ptr<StopSignals>(new StopSignals());
}

void StopSignals::stop() const { begin_stop(); }

// The handlers run on whichever thread, be its stack one of Go's, without room for them.
StopSignals::StopSignals() {
  struct sigaction action {};
  action.sa_flags = SA_ONSTACK;
  action.sa_handler = on_signal;
  sigaction(SIGTERM, &action, &term_before_);
  sigaction(SIGINT, &action, &int_before_);
  action.sa_handler = on_alarm;
  sigaction(SIGALRM, &action, &alarm_before_);
  make_harmless();
}

// The handlers block all other signals, preemptions above all.
void StopSignals::make_harmless() {
  for (size_t i = 0; i < kHarmless.size(); ++i) {
    if (sigaction(kHarmless[i], nullptr, &harmless_before_[i]) != 0) continue;
    if (harmless_before_[i].sa_handler != SIG_DFL) continue;
    struct sigaction action {};
    action.sa_handler = kHarmless[i] == SIGPIPE ? SIG_IGN : on_harmless;
    action.sa_flags = SA_RESTART | SA_ONSTACK;
    sigfillset(&action.sa_mask);
    sigaction(kHarmless[i], &action, nullptr);
  }
}

StopSignals::~StopSignals() {
  alarm(0);
  for (size_t i = 0; i < kHarmless.size(); ++i) {
    if (harmless_before_[i].sa_handler != SIG_DFL) continue;  // left alone
    sigaction(kHarmless[i], &harmless_before_[i], nullptr);
  }
  sigaction(SIGALRM, &alarm_before_, nullptr);
  sigaction(SIGTERM, &term_before_, nullptr);
  sigaction(SIGINT, &int_before_, nullptr);
  g_runtime.store(nullptr);
}

}  // namespace rubato
