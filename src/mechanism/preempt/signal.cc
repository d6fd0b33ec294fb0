// SPDX-License-Identifier: Apache-2.0
#include "mechanism/preempt/signal.h"

#include "mechanism/preempt/never_left.h"
#include "mechanism/preempt/preempt_disable.h"
#include "mechanism/preempt/thread_table.h"

#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>

namespace rubato {
namespace {

[[gnu::tls_model("initial-exec")]] thread_local constinit uint32_t t_interrupts = 0;

using Receivers = ThreadTable<InterruptTarget*>;

Receivers g_receivers;
std::mutex g_mutex;  // guards the two below and changes of the table
uint32_t g_open = 0;
struct sigaction g_before {};
std::atomic<void (*)(int, siginfo_t*, void*)> g_chained{nullptr};

InterruptTarget* target_here() {
  InterruptTarget** const target = g_receivers.here();
  return target != nullptr ? *target : nullptr;
}

// Of the interrupted code.
struct Registers {
  uintptr_t pc;
  uintptr_t sp;
  int64_t result;  // where a system call has left its own
  bool may_repeat;  // a system call at pc is one that was made before, for all that is known
};

#if defined(__x86_64__)

constexpr std::array<uint8_t, 2> kCall{0x0f, 0x05};  // syscall

// The instruction leaves the address behind it in RCX. A thread that is about to make a call has
// another one there, unless it has just made the same call.
Registers registers_of(const ucontext_t& interrupted) {
  const auto& all = interrupted.uc_mcontext.gregs;
  const auto pc = static_cast<uintptr_t>(all[REG_RIP]);
  return {pc, static_cast<uintptr_t>(all[REG_RSP]), all[REG_RAX],
          static_cast<uintptr_t>(all[REG_RCX]) == pc + kCall.size()};
}

#else

constexpr std::array<uint8_t, 4> kCall{0x01, 0x00, 0x00, 0xd4};  // svc #0

// The instruction leaves no mark, so a thread that is about to make a call counts as well. It is in
// the state in which the kernel would put it to have the call made again.
Registers registers_of(const ucontext_t& interrupted) {
  const auto& all = interrupted.uc_mcontext;
  return {static_cast<uintptr_t>(all.pc), static_cast<uintptr_t>(all.sp),
          static_cast<int64_t>(all.regs[0]), true};
}

#endif

// A system call that the signal has interrupted is made again, from the instruction itself, or has
// failed with EINTR.
bool was_in_system_call(const Registers& registers) {
  constexpr uintptr_t kPage = 4096;
  const auto is_call = [](uintptr_t at) {
    return at % kPage <= kPage - kCall.size() &&
           std::memcmp(reinterpret_cast<const void*>(at), kCall.data(), kCall.size()) == 0;
  };
  const bool failed = registers.result == -EINTR && registers.pc % kPage >= kCall.size();
  return (registers.may_repeat && is_call(registers.pc)) ||
         (failed && is_call(registers.pc - kCall.size()));
}

// The same as on_signal_stack(), of the code that was interrupted.
bool was_on_signal_stack(const ucontext_t& interrupted, const Registers& registers) {
  const stack_t& stack = interrupted.uc_stack;
  return registers.sp - reinterpret_cast<uintptr_t>(stack.ss_sp) < stack.ss_size;
}

// On its way back a handler gives the thread the alternate stack that its frame names: that of the
// thread before, if the fiber was moved.
void keep_signal_stack(ucontext_t& interrupted) {
  static_cast<void>(::sigaltstack(nullptr, &interrupted.uc_stack));
}

void interrupt(InterruptTarget& target, ucontext_t& interrupted) {
  const Registers registers = registers_of(interrupted);
  const bool stays = was_on_signal_stack(interrupted, registers);
  if (stays) preempt_disable();
  target.interrupted(registers.pc, was_in_system_call(registers));
  if (stays) return preempt_enable_no_resched();
  if (target_here() != &target) keep_signal_stack(interrupted);
}

bool is_ours(const siginfo_t& info) {
  return info.si_code == SI_TIMER || (info.si_code == SI_TKILL && info.si_pid == ::getpid());
}

// errno and the region are the fiber's own, the same before and after a switch. The region keeps
// interrupts from nesting on the way out. Before and behind it, what a further interrupt finds here
// may have been called half-way through code that must not be left.
RUBATO_NEVER_LEFT void on_signal(int number, siginfo_t* info, void* context) {
  preempt_disable();
  const int saved = errno;
  ++t_interrupts;
  if (InterruptTarget* target = target_here(); target != nullptr && is_ours(*info)) {
    interrupt(*target, *static_cast<ucontext_t*>(context));
  } else if (!is_ours(*info)) {
    if (auto* chained = g_chained.load(std::memory_order_acquire)) chained(number, info, context);
  }
  errno = saved;
  preempt_enable_no_resched();
}

// Requires g_mutex.
void install() {
  struct sigaction action {};
  action.sa_sigaction = &on_signal;
  action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_RESTART;
  sigemptyset(&action.sa_mask);
  RUBATO_CHECK(::sigaction(interrupt_signal(), &action, &g_before) == 0);
  // The two kinds of handler are called alike: further arguments do no harm.
  const bool plain = g_before.sa_handler == SIG_DFL || g_before.sa_handler == SIG_IGN;
  g_chained.store(plain ? nullptr : g_before.sa_sigaction, std::memory_order_release);
}

void uninstall() {
  RUBATO_CHECK(::sigaction(interrupt_signal(), &g_before, nullptr) == 0);
  g_chained.store(nullptr, std::memory_order_release);
}

void unblock() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, interrupt_signal());
  RUBATO_CHECK(::pthread_sigmask(SIG_UNBLOCK, &signals, nullptr) == 0);
}

class SignalLine final : public InterruptLine {
 public:
  explicit SignalLine(Receivers::Entry& receiver)
      : receiver_(receiver), process_(::getpid()), thread_(receiver.thread.load()) {}

  ~SignalLine() override {
    const std::scoped_lock lock(g_mutex);
    g_receivers.remove(receiver_);
    if (--g_open == 0) uninstall();
  }

  void send() override { static_cast<void>(::syscall(SYS_tgkill, process_, thread_, SIGURG)); }

 private:
  Receivers::Entry& receiver_;
  const pid_t process_;
  const pid_t thread_;
};

}  // namespace

// Not inlined: after a switch the fiber may be on another thread.
[[gnu::noinline]] uint32_t interrupts_taken() {
  asm volatile("");
  return t_interrupts;
}

int interrupt_signal() { return SIGURG; }

bool on_signal_stack() {
  stack_t present{};
  return ::sigaltstack(nullptr, &present) == 0 && (present.ss_flags & SS_ONSTACK) != 0;
}

Result<std::unique_ptr<InterruptLine>> open_signal_line(InterruptTarget& target) {
  const std::scoped_lock lock(g_mutex);
  Receivers::Entry* const receiver = g_receivers.add(&target);
  if (receiver == nullptr) {
    return Error{"no more than " + std::to_string(Receivers::kThreadsMax) +
                 " threads can be interrupted"};
  }
  if (g_open++ == 0) install();
  unblock();
  return std::unique_ptr<InterruptLine>(std::make_unique<SignalLine>(*receiver));
}

}  // namespace rubato
