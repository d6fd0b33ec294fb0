// SPDX-License-Identifier: Apache-2.0
#include "mechanism/preempt/credentials.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <mutex>

#include "base/check.h"
#include "mechanism/preempt/never_left.h"
#include "mechanism/preempt/preempt_disable.h"
#include "mechanism/preempt/tls_block.h"

namespace rubato {
namespace {

using Handler = void (*)(int, siginfo_t*, void*);

// A signal's action as the kernel knows it: the C library does not tell of its own signals.
struct KernelAction {
  Handler handler = nullptr;
  unsigned long flags = 0;
  void (*restorer)() = nullptr;
  uint64_t blocked = 0;
};

constexpr int kCredentialsSignal = 33;  // SIGSETXID of glibc
constexpr uint64_t kAllSignals = ~uint64_t{0};

long change_action(const KernelAction* to, KernelAction* before) {
  return ::syscall(SYS_rt_sigaction, kCredentialsSignal, to, before, sizeof(uint64_t));
}

ThreadTable<uintptr_t> g_threads;  // their own thread pointers
std::mutex g_mutex;                // guards changes of the table, and the installation
std::atomic<Handler> g_answer{nullptr};  // the C library's; null = none was there

RUBATO_NEVER_LEFT void as_thread(uintptr_t own, void (*call)(void*), void* argument) {
  const uintptr_t present = thread_pointer();
  if (own == present) return call(argument);
  preempt_disable();
  set_thread_pointer(own);
  preempt_disable();  // here, too: the count is thread-local
  call(argument);
  preempt_enable_no_resched();
  set_thread_pointer(present);
  preempt_enable_no_resched();
}

struct Answer {
  int number;
  siginfo_t* info;
  void* context;
};

void answer(void* argument) {
  const auto& given = *static_cast<const Answer*>(argument);
  g_answer.load(std::memory_order_acquire)(given.number, given.info, given.context);
}

// Sleeping threads of TLS blocks answer too, while their thread-local storage is in use elsewhere:
// nothing of it is touched here, and the C library only changes its own marks there, atomically.
RUBATO_NEVER_LEFT void on_signal(int number, siginfo_t* info, void* context) {
  Answer given{number, info, context};
  const uintptr_t* const own = g_threads.here();
  own != nullptr ? as_thread(*own, &answer, &given) : answer(&given);
}

// Requires g_mutex.
void install() {
  if (g_answer.load(std::memory_order_relaxed) != nullptr) return;
  KernelAction action;
  if (change_action(nullptr, &action) != 0 || action.handler == nullptr) return;
  g_answer.store(action.handler, std::memory_order_release);
  action.handler = &on_signal;
  action.blocked = kAllSignals;
  RUBATO_CHECK(change_action(&action, nullptr) == 0);
}

}  // namespace

std::unique_ptr<CredentialsOfThread> CredentialsOfThread::announce() {
  const std::scoped_lock lock(g_mutex);
  install();
  Entry* const entry = g_threads.add(thread_pointer());
  if (entry == nullptr) return nullptr;
  return std::unique_ptr<CredentialsOfThread>(new CredentialsOfThread(*entry));
}

CredentialsOfThread::~CredentialsOfThread() {
  const std::scoped_lock lock(g_mutex);
  g_threads.remove(entry_);
}

void call_as_thread(void (*call)(void*), void* argument) {
  const uintptr_t* const own = g_threads.here();
  own != nullptr ? as_thread(*own, call, argument) : call(argument);
}

}  // namespace rubato
