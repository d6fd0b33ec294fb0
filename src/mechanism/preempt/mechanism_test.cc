// SPDX-License-Identifier: Apache-2.0
#include "mechanism/preempt/mechanism.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <thread>

#include "mechanism/clock/clock.h"
#include "mechanism/preempt/signal.h"
#include "mechanism/preempt/timer.h"

namespace rubato {
namespace {

TEST(Mechanism, names_are_read_back) {
  for (const PreemptMechanism mechanism : kPreemptMechanisms) {
    EXPECT_EQ(preempt_mechanism(to_string(mechanism)), mechanism);
  }
  EXPECT_EQ(preempt_mechanism("auto"), PreemptMechanism::kAuto);
  EXPECT_EQ(preempt_mechanism("magic"), std::nullopt);
}

TEST(Mechanism, auto_is_something_that_is_available) {
  const PreemptMechanism best = resolve(PreemptMechanism::kAuto);
  EXPECT_NE(best, PreemptMechanism::kAuto);
  EXPECT_NE(best, PreemptMechanism::kNone);
  EXPECT_TRUE(available(best).ok());
}

TEST(Mechanism, checkpoint_and_none_are_always_there) {
  EXPECT_TRUE(available(PreemptMechanism::kCheckpoint).ok());
  EXPECT_TRUE(available(PreemptMechanism::kNone).ok());
}

TEST(Mechanism, what_is_missing_says_why) {
  for (const PreemptMechanism mechanism : kPreemptMechanisms) {
    const Status status = available(mechanism);
    EXPECT_TRUE(status.ok() || !status.error().empty());
  }
}

TEST(Mechanism, interrupted_requests_need_room_for_the_kernels_frame) {
  EXPECT_EQ(min_stack_bytes(PreemptMechanism::kCheckpoint), 0u);
  EXPECT_GT(min_stack_bytes(PreemptMechanism::kSignal), size_t{16} * 1024);
}

struct Counter final : InterruptTarget {
  void interrupted(uintptr_t pc, bool) override {
    last_pc.store(pc, std::memory_order_relaxed);
    on_thread.store(static_cast<pid_t>(::syscall(SYS_gettid)), std::memory_order_relaxed);
    count.fetch_add(1, std::memory_order_release);
  }
  std::atomic<uintptr_t> last_pc{0};
  std::atomic<pid_t> on_thread{0};
  std::atomic<uint64_t> count{0};
};

// (ThreadSanitizer holds signals back until the thread calls into the C library.)
struct SignalLine : testing::Test {
  void SetUp() override {
    if (const Status has = available(PreemptMechanism::kSignal); !has.ok()) {
      GTEST_SKIP() << has.error();
    }
  }
};
struct TimedLine : SignalLine {};

TEST_F(SignalLine, interrupts_the_thread_that_opened_it_and_no_other) {
  Counter counter;
  std::atomic<InterruptLine*> line{nullptr};
  std::atomic<pid_t> thread{0};
  std::atomic<bool> done{false};
  std::thread worker([&] {
    thread = static_cast<pid_t>(::syscall(SYS_gettid));
    auto opened = open_interrupt_line(PreemptMechanism::kSignal, counter);
    ASSERT_TRUE(opened.ok());
    line = opened->get();
    while (!done) std::atomic_signal_fence(std::memory_order_seq_cst);
  });
  while (line == nullptr) std::this_thread::yield();
  for (uint64_t i = 1; i <= 100; ++i) {
    line.load()->send();
    while (counter.count.load(std::memory_order_acquire) < i) std::this_thread::yield();
    EXPECT_EQ(counter.on_thread.load(), thread.load());
  }
  EXPECT_NE(counter.last_pc.load(), 0u);
  done = true;
  worker.join();
}

struct Asked final : InterruptTarget {
  void interrupted(uintptr_t, bool in_system_call) override { in_call = in_system_call; }
  bool in_call = false;
};

// The kernel may have a thread in a call that it has made, not in one that it is about to make,
// which AArch64 does not tell apart.
TEST_F(SignalLine, a_system_call_counts_once_it_is_made) {
  Asked asked;
  auto line = open_interrupt_line(PreemptMechanism::kSignal, asked);
  ASSERT_TRUE(line.ok());
  struct sigaction handler {};
  ::sigaction(interrupt_signal(), nullptr, &handler);
  siginfo_t info{};
  info.si_code = SI_TKILL;
  info.si_pid = ::getpid();
#if defined(__x86_64__)
  alignas(16) static constexpr std::array<uint8_t, 3> kCall{0x0f, 0x05, 0xc3};  // syscall, ret
  const auto at = reinterpret_cast<int64_t>(kCall.data());
  const int64_t behind = at + 2;
  const auto in_call = [&](int64_t pc, int64_t result, bool made) {
    ucontext_t context{};
    auto& registers = context.uc_mcontext.gregs;
    registers[REG_RIP] = pc;
    registers[REG_RAX] = result;
    registers[REG_RCX] = made ? behind : 0;
    handler.sa_sigaction(interrupt_signal(), &info, &context);
    return asked.in_call;
  };
  EXPECT_FALSE(in_call(at, SYS_futex, false));
#else
  alignas(16) static constexpr std::array<uint32_t, 2> kCall{0xd4000001, 0xd65f03c0};  // svc, ret
  const auto at = reinterpret_cast<int64_t>(kCall.data());
  const int64_t behind = at + 4;
  const auto in_call = [&](int64_t pc, int64_t result, bool) {
    ucontext_t context{};
    context.uc_mcontext.pc = static_cast<uint64_t>(pc);
    context.uc_mcontext.regs[0] = static_cast<uint64_t>(result);
    handler.sa_sigaction(interrupt_signal(), &info, &context);
    return asked.in_call;
  };
#endif
  EXPECT_TRUE(in_call(at, SYS_futex, true));  // is made again
  EXPECT_TRUE(in_call(behind, -EINTR, true));
  EXPECT_FALSE(in_call(behind, 0, true));
}

int g_theirs = 0;

TEST_F(SignalLine, handler_of_the_program_gets_what_is_not_ours_and_comes_back) {
  struct sigaction theirs {};
  struct sigaction before {};
  theirs.sa_handler = [](int) { ++g_theirs; };
  ::sigaction(interrupt_signal(), &theirs, &before);
  {
    Counter counter;
    auto line = open_interrupt_line(PreemptMechanism::kSignal, counter);
    ASSERT_TRUE(line.ok());
    ::kill(::getpid(), interrupt_signal());
    while (g_theirs == 0) std::this_thread::yield();
    EXPECT_EQ(counter.count.load(), 0u);
    (*line)->send();
    EXPECT_EQ(counter.count.load(), 1u);
    EXPECT_EQ(g_theirs, 1);
  }
  ::raise(interrupt_signal());
  EXPECT_EQ(g_theirs, 2);
  ::sigaction(interrupt_signal(), &before, nullptr);
}

TEST_F(TimedLine, interrupts_once_and_not_when_disarmed) {
  Counter counter;
  auto line = open_interrupt_line(PreemptMechanism::kTimer, counter);
  ASSERT_TRUE(line.ok());
  auto timer = WorkerTimer::make();
  ASSERT_TRUE(timer.ok());
  (*timer)->arm(Nanos::micros(100));
  while (counter.count.load() == 0) std::this_thread::yield();
  const Instant end = now() + Nanos::millis(5);
  while (now() < end) EXPECT_EQ(counter.count.load(), 1u);
  (*timer)->arm(Nanos::seconds(3600));
  (*timer)->disarm();
  (*timer)->arm(Nanos(1));
  while (counter.count.load() == 1) std::this_thread::yield();
}

}  // namespace
}  // namespace rubato
