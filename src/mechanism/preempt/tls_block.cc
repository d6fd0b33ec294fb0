// SPDX-License-Identifier: Apache-2.0
#include "mechanism/preempt/tls_block.h"

#include <errno.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/futex.h>

#include "mechanism/cpu/bare_syscall.h"
#include "mechanism/fiber/sanitizer.h"

#if __has_include(<sys/rseq.h>)
#include <sys/rseq.h>
#endif

#if defined(__x86_64__)
#include <asm/prctl.h>
#endif

namespace rubato {

#if defined(__x86_64__)

namespace {

constexpr unsigned long kUserMayWrite = 1ul << 1;  // HWCAP2_FSGSBASE

// Read once: asking is a walk through the auxiliary vector.
const bool g_user_may_write = (getauxval(AT_HWCAP2) & kUserMayWrite) != 0;

}  // namespace

[[gnu::noinline]] uintptr_t thread_pointer() {
  uintptr_t pointer = 0;
  asm volatile("movq %%fs:0, %0" : "=r"(pointer));  // the block's first word is its own address
  return pointer;
}

[[gnu::noinline]] void set_thread_pointer(uintptr_t pointer) {
  if (__builtin_expect(g_user_may_write, 1)) {
    asm volatile("wrfsbase %0" : : "r"(pointer) : "memory");
  } else {
    bare_syscall(SYS_arch_prctl, ARCH_SET_FS, static_cast<long>(pointer));
  }
}

#elif defined(__aarch64__)

[[gnu::noinline]] uintptr_t thread_pointer() {
  uintptr_t pointer = 0;
  asm volatile("mrs %0, tpidr_el0" : "=r"(pointer));
  return pointer;
}

[[gnu::noinline]] void set_thread_pointer(uintptr_t pointer) {
  asm volatile("msr tpidr_el0, %0" : : "r"(pointer) : "memory");
}

#endif

Status TlsBlock::available() {
  if (sanitizer::kPresent) {
    return Error{"built with a sanitizer, which keeps its records by thread"};
  }
  return Done{};
}

namespace {

constexpr size_t kSleeperStackBytes = size_t{256} * 1024;
constexpr uint32_t kAsleep = 1;
constexpr uint32_t kEnding = 2;

// False: the word has another value.
bool futex_wait(std::atomic<uint32_t>& word, uint32_t value) {
  return bare_syscall(SYS_futex, reinterpret_cast<long>(&word), FUTEX_WAIT_PRIVATE, value) !=
         -EAGAIN;
}
void futex_wake(std::atomic<uint32_t>& word) {
  bare_syscall(SYS_futex, reinterpret_cast<long>(&word), FUTEX_WAKE_PRIVATE, 1);
}

}  // namespace

void leave_restartable_sequences([[maybe_unused]] uintptr_t at) {
#if defined(RSEQ_SIG)
  constexpr long kUnregister = 1;
  constexpr long kRegisteredBytes = 32;  // what the C library registers, whatever it uses of it
  if (__rseq_size == 0) return;
  bare_syscall(SYS_rseq, static_cast<long>(at) + __rseq_offset, kRegisteredBytes, kUnregister,
               RSEQ_SIG);
#endif
}

std::unique_ptr<TlsBlock> TlsBlock::make(void (*at_end)(), ThreadKind kind) {
  std::unique_ptr<TlsBlock> made(new TlsBlock(at_end, kind));
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return nullptr;
  // The sleeper takes no signals that are meant for the process.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const bool started =
      pthread_attr_setstacksize(&attributes, kSleeperStackBytes) == 0 &&
      pthread_create(&made->sleeper_, &attributes, &TlsBlock::sleep_for_ever, made.get()) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
  if (!started) {
    made->phase_.store(kEnding, std::memory_order_relaxed);
    return nullptr;
  }
  made->wait_for(kAsleep);
  return made;
}

// Pairs with the sleeper's release store: its changes to its thread-local storage are seen.
void TlsBlock::wait_for(uint32_t phase) {
  for (;;) {
    const uint32_t seen = phase_.load(std::memory_order_acquire);
    if (seen == phase) return;
    futex_wait(phase_, seen);
  }
}

// From kAsleep on until kEnding this thread touches nothing that is found through its thread
// pointer: that storage belongs to a fiber. Nor does it read the word, as what an instrumented
// access calls may look there; the kernel compares.
void* TlsBlock::sleep_for_ever(void* argument) {
  auto& self = *static_cast<TlsBlock*>(argument);
  leave_restartable_sequences(thread_pointer());
  interposers_mark_thread(self.kind_);
  self.pointer_ = thread_pointer();
  self.phase_.store(kAsleep, std::memory_order_release);
  futex_wake(self.phase_);
  while (futex_wait(self.phase_, kAsleep)) {
  }
  self.wait_for(kEnding);
  interposers_mark_thread(ThreadKind::kPlain);
  if (self.at_end_ != nullptr) self.at_end_();
  return nullptr;
}

// The release store hands the thread-local storage back.
TlsBlock::~TlsBlock() {
  if (phase_.exchange(kEnding, std::memory_order_acq_rel) == kEnding) return;
  futex_wake(phase_);
  pthread_join(sleeper_, nullptr);
}

}  // namespace rubato
