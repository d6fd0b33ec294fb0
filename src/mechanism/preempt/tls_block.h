// SPDX-License-Identifier: Apache-2.0
//
// TlsBlock: thread-local storage for a fiber that may be interrupted at any instruction and go on
// on another worker. Code that knows nothing of fibers keeps addresses of its thread-locals, errno,
// the allocator's cache, the exceptions in flight; so the fiber takes all of it along. It borrows
// the thread control block of a real thread, made for this purpose and asleep for ever: switching
// fibers also switches the thread pointer (FS base, on AArch64 TPIDR_EL0), and whatever the C
// library finds through it is the fiber's own. Costs 12 ns per switch where user code may write the
// register, a system call elsewhere.
//
// State that the kernel keeps stays with the worker: thread id (gettid), CPU mask, priority, signal
// mask (which the runtime switches), alternate signal stack, signals sent to pthread_self(), robust
// and priority-inheriting mutexes, restartable sequences. The latter are unregistered in the
// sleeping thread, so that the C library asks the kernel for the CPU number instead of reading that
// of the sleeper.
//
// Thread safety: make and the destructor on any thread; set_thread_pointer on the thread whose TLS
// block changes. At any time at most one thread uses a TLS block, and none when it is destroyed:
// then the sleeper wakes, runs the destructors of the thread-locals and ends.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/result.h"
#include "mechanism/preempt/interposed.h"

namespace rubato {

// The register through which the calling thread finds its thread-local storage.
uintptr_t thread_pointer();

// Switches the calling thread to the thread-local storage of `pointer`. The caller must hold no
// address of a thread_local from before.
void set_thread_pointer(uintptr_t pointer);

// Has the kernel forget the restartable sequences of the calling thread, which the C library has
// registered at its thread pointer `at`. Needed in the child of a fork by a fiber with a TLS block:
// that is the child's thread pointer, and the C library frees the memory at `at`, where the kernel
// would still write.
void leave_restartable_sequences(uintptr_t at);

class TlsBlock {
 public:
  // Done, or the reason why fibers cannot have a TLS block here: a sanitizer, which keeps records
  // by thread.
  static Status available();

  // Null: the system has no more threads. `at_end` (may be null) runs as this TLS block before its
  // thread-locals are destroyed. `kind`: its kind for the interposed functions of libc.
  static std::unique_ptr<TlsBlock> make(void (*at_end)() = nullptr,
                                        ThreadKind kind = ThreadKind::kOwnsTls);
  ~TlsBlock();
  TlsBlock(const TlsBlock&) = delete;
  TlsBlock& operator=(const TlsBlock&) = delete;

  uintptr_t pointer() const { return pointer_; }

 private:
  TlsBlock(void (*at_end)(), ThreadKind kind) : at_end_(at_end), kind_(kind) {}
  static void* sleep_for_ever(void* self);
  void wait_for(uint32_t phase);

  void (*const at_end_)();
  const ThreadKind kind_;
  uintptr_t pointer_ = 0;  // written by the sleeper before kAsleep
  std::atomic<uint32_t> phase_{0};  // 0 = it is starting
  pthread_t sleeper_{};
};

}  // namespace rubato
