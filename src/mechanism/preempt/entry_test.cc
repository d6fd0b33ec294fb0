// SPDX-License-Identifier: Apache-2.0
#include "mechanism/preempt/entry.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <string>
#include <thread>

#include "mechanism/fiber/sanitizer.h"
#include "mechanism/preempt/kmod_abi.h"
#include "mechanism/preempt/preempt_disable.h"
#include "mechanism/preempt/testing/state_probe.h"

namespace rubato {
namespace {

// Interrupts the calling thread as the kernel module does: a signal's handler, which runs on a
// stack of its own, puts the frame below the red zone and has the kernel return to the entry.
InterruptTarget* g_target = nullptr;

void send_to_entry(int, siginfo_t*, void* context) {
  auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  registers[REG_RSP] -= RUBATO_IPI_RED_ZONE_BYTES + 16;
  auto* frame = reinterpret_cast<uint64_t*>(registers[REG_RSP]);
  frame[0] = interrupt_cookie(*g_target);
  frame[1] = static_cast<uint64_t>(registers[REG_RIP]);
  registers[REG_RIP] = static_cast<greg_t>(interrupt_entry());
}

class InterruptEntry : public testing::Test {
 protected:
  void SetUp() override {
    if (const Status entry = prepare_interrupt_entry(); !entry.ok()) GTEST_SKIP() << entry.error();
    // ThreadSanitizer holds signals back until the thread calls into the C library.
    if (sanitizer::kPresent) GTEST_SKIP() << "built with a sanitizer";
    stack_t elsewhere{};
    elsewhere.ss_sp = stack_.data();
    elsewhere.ss_size = stack_.size();
    ASSERT_EQ(::sigaltstack(&elsewhere, &stack_before_), 0);
    struct sigaction action {};
    action.sa_sigaction = &send_to_entry;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    ASSERT_EQ(::sigaction(SIGUSR2, &action, &before_), 0);
  }
  void TearDown() override {
    if (IsSkipped()) return;
    ::sigaction(SIGUSR2, &before_, nullptr);
    ::sigaltstack(&stack_before_, nullptr);
  }

 private:
  std::array<char, size_t{64} * 1024> stack_{};
  stack_t stack_before_{};
  struct sigaction before_ {};
};

// Leaves nothing as it was.
struct StateScrambler final : InterruptTarget {
  void interrupted(uintptr_t pc, bool) override {
    uint32_t mxcsr = 0;
    uint64_t flags = 0;
    uint16_t control = 0;
    asm volatile("fnstcw %0" : "=m"(control));
    asm volatile("stmxcsr %0" : "=m"(mxcsr));
    asm volatile("pushfq\n\tpopq %0" : "=r"(flags));
    if (mxcsr != 0x1f80 || control != 0x37f || (flags & 1u << 10) != 0) surprised = true;
    // The next one may come while this one has yet to leave.
    if (preempt_disable_depth() == 0 || pc == 0) surprised = true;
    asm volatile(
        ".irp r, rax,rcx,rdx,rsi,rdi,r8,r9,r10,r11,r12,r13,r14,r15\n\t"
        "movq %%rsp, %%\\r\n\t"
        ".endr"
        :
        :
        : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15");
    volatile long double third = 1.0L / static_cast<long double>(count + 3);
    volatile double root = __builtin_sqrt(static_cast<double>(third));
    third = root;
    errno = ENOTTY;
    count.fetch_add(1, std::memory_order_release);
  }
  std::atomic<uint64_t> count{0};
  std::atomic<bool> surprised{false};
};

TEST_F(InterruptEntry, interrupted_code_keeps_all_its_state) {
  constexpr uint64_t kInterrupts = 200;
  StateScrambler scrambler;
  g_target = &scrambler;
  const auto victim = static_cast<pid_t>(::syscall(SYS_gettid));
  std::thread sender([&] {
    for (uint64_t sent = 1; sent <= kInterrupts; ++sent) {
      ::syscall(SYS_tgkill, ::getpid(), victim, SIGUSR2);
      while (scrambler.count.load(std::memory_order_acquire) < sent) std::this_thread::yield();
    }
  });
  std::string changed;
  for (uint64_t seed = 1; scrambler.count < kInterrupts && changed.empty(); ++seed) {
    errno = EDOM;
    changed = probe_state(50'000, seed);
    if (errno != EDOM) changed += "errno ";
  }
  const bool good = changed.empty();
  while (!good && scrambler.count < kInterrupts) std::this_thread::yield();
  sender.join();
  EXPECT_EQ(changed, "");
  EXPECT_FALSE(scrambler.surprised);
  EXPECT_EQ(preempt_disable_depth(), 0u);
}

TEST_F(InterruptEntry, interrupts_may_nest) {
  struct Nesting final : InterruptTarget {
    void interrupted(uintptr_t, bool) override {
      if (++depth < 4) ::raise(SIGUSR2);
      deepest = std::max(deepest, depth);
      --depth;
    }
    int depth = 0;
    int deepest = 0;
  } nesting;
  g_target = &nesting;
  ::raise(SIGUSR2);
  EXPECT_EQ(nesting.deepest, 4);
  EXPECT_EQ(nesting.depth, 0);
}

}  // namespace
}  // namespace rubato
