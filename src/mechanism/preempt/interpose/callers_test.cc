// SPDX-License-Identifier: Apache-2.0
//
// libc, the loader and the C++ runtime call interposed functions while they hold locks of their
// own: nothing is switched on the way back into them, nor anywhere on the way there.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <ucontext.h>

#include <locale>
#include <mutex>
#include <string>

#include "mechanism/preempt/code_map.h"
#include "mechanism/preempt/interpose/testing/ring.h"
#include "mechanism/preempt/preempt_disable.h"

namespace rubato {
namespace {

using testing::Ring;

int g_honoured = 0;

void a_function_of_the_program() { ++g_honoured; }

class Callers : public ::testing::Test {
 protected:
  void SetUp() override {
    g_honoured = 0;
    set_pending_preemption_handler(&a_function_of_the_program);
    ASSERT_TRUE(code_map_build().ok());
    set_async_signal_unsafe_predicate(&code_is_in_unsafe_object);
  }
  void TearDown() override {
    set_async_signal_unsafe_predicate(nullptr);
    clear_preemption_pending();
    set_pending_preemption_handler(nullptr);
  }

  // On a fiber, with a preemption that is due: how often it was honoured.
  template <class Call>
  int honoured_by(Call call) {
    ring_.add([&] {
      set_preemption_pending();
      call();
      EXPECT_EQ(preempt_disable_depth(), 0u);
    });
    ring_.run();
    return g_honoured;
  }

  Ring ring_;
};

TEST_F(Callers, the_program_is_left_at_the_end_of_what_it_allocates) {
  void* memory = nullptr;
  EXPECT_EQ(honoured_by([&] { memory = malloc(10); }), 1);
  EXPECT_EQ(honoured_by([&] { free(memory); }), 2);
}

TEST_F(Callers, libc_is_not_left_at_the_end_of_what_it_allocates) {
  char* copy = nullptr;
  EXPECT_EQ(honoured_by([&] { copy = strdup("it is libc that calls malloc"); }), 0);
  free(copy);
}

TEST_F(Callers, libc_is_not_left_where_it_allocates_under_a_lock_of_its_own) {
  locale_t made = nullptr;
  EXPECT_EQ(honoured_by([&] {
              setenv("RUBATO_TEST_OF_CALLERS", "a text", 1);
              setenv("TZ", ":Europe/Berlin", 1);
              tzset();
              unsetenv("TZ");
              tzset();
              setlocale(LC_ALL, "C.UTF-8");
              setlocale(LC_ALL, "C");
              made = newlocale(LC_ALL_MASK, "C.UTF-8", nullptr);
            }),
            0);
  if (made != nullptr) freelocale(made);
}

TEST_F(Callers, the_cpp_runtime_is_not_left_where_it_takes_and_releases_a_lock) {
  EXPECT_EQ(honoured_by([] { std::locale::global(std::locale::classic()); }), 0);
}

TEST_F(Callers, what_libc_left_pending_is_honoured_when_the_program_comes_by) {
  EXPECT_EQ(honoured_by([] {
              setenv("RUBATO_TEST_OF_CALLERS", "another", 1);
              std::mutex mutex;
              mutex.lock();
              EXPECT_EQ(g_honoured, 0);
              mutex.unlock();
            }),
            1);
}

TEST_F(Callers, interposed_functions_are_never_left_wherever_they_lie) {
  for (const char* name :
       {"malloc", "calloc", "realloc", "free", "posix_memalign", "aligned_alloc", "memalign",
        "pthread_mutex_lock", "pthread_mutex_unlock", "pthread_rwlock_rdlock",
        "pthread_rwlock_unlock", "pthread_once", "__cxa_guard_acquire", "__cxa_guard_release",
        "pthread_cond_wait", "pthread_cond_signal", "pthread_spin_lock", "sem_wait", "sched_yield",
        "flockfile", "funlockfile", "dl_iterate_phdr", "dlopen", "dlmopen", "dlclose", "fork",
        "malloc_trim", "malloc_info", "malloc_stats", "mallopt", "mallinfo", "mallinfo2"}) {
    const auto code = reinterpret_cast<uintptr_t>(dlsym(RTLD_DEFAULT, name));
    EXPECT_EQ(code_kind(code), CodeKind::kUnsafe) << name;
  }
  const auto here = reinterpret_cast<uintptr_t>(&a_function_of_the_program);
  EXPECT_NE(code_kind(here), CodeKind::kUnsafe);
}

#if defined(__x86_64__)

// The result of single-stepping, instruction by instruction, below the function that is stepped
// through.
struct Steps {
  uintptr_t frame = 0;      // the stack pointer as the function is entered
  uint64_t preemption_disabled = 0;
  uintptr_t could_be_left = 0;
};
Steps g_steps;

void on_step(int, siginfo_t*, void* context) {
  const auto& registers = static_cast<const ucontext_t*>(context)->uc_mcontext.gregs;
  const auto pc = static_cast<uintptr_t>(registers[REG_RIP]);
  const auto sp = static_cast<uintptr_t>(registers[REG_RSP]);
  if (g_steps.frame == 0) g_steps.frame = sp;
  if (preempt_disable_depth() > 0) {
    ++g_steps.preemption_disabled;
  } else if (sp < g_steps.frame && code_kind(pc) == CodeKind::kSafe) {
    g_steps.could_be_left = pc;
  }
}

// Calls the function with the processor's trap flag set: a SIGTRAP after each instruction.
uintptr_t step_through(const char* function, uintptr_t a, uintptr_t b, uintptr_t c) {
  auto result = reinterpret_cast<uintptr_t>(dlsym(RTLD_DEFAULT, function));
  asm volatile(
      "movq %%rsp, %%rbx\n\t"
      "subq $256, %%rsp\n\t"
      "andq $-16, %%rsp\n\t"
      "pushfq\n\t"
      "orq $0x100, (%%rsp)\n\t"
      "popfq\n\t"
      "call *%%rax\n\t"
      "pushfq\n\t"
      "andq $~0x100, (%%rsp)\n\t"
      "popfq\n\t"
      "movq %%rbx, %%rsp"
      : "+a"(result), "+D"(a), "+S"(b), "+d"(c)
      :
      : "rbx", "rcx", "r8", "r9", "r10", "r11", "memory", "cc", "xmm0", "xmm1", "xmm2", "xmm3",
        "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14",
        "xmm15");
  return result;
}

uintptr_t address(const void* what) { return reinterpret_cast<uintptr_t>(what); }

std::string name_of(uintptr_t pc) {
  Dl_info info{};
  const bool known = dladdr(reinterpret_cast<const void*>(pc), &info) != 0;
  return known && info.dli_sname != nullptr ? info.dli_sname : std::to_string(pc);
}

class CallersByStep : public Callers {
 protected:
  void SetUp() override {
    Callers::SetUp();
    struct sigaction action {};
    action.sa_sigaction = on_step;
    action.sa_flags = SA_SIGINFO;
    ASSERT_EQ(sigaction(SIGTRAP, &action, &before_), 0);
  }
  void TearDown() override {
    sigaction(SIGTRAP, &before_, nullptr);
    Callers::TearDown();
  }

  // On a fiber. `due`: with a preemption to honour, all the way.
  uintptr_t expect_never_left(bool due, const char* function, uintptr_t a, uintptr_t b = 0,
                              uintptr_t c = 0) {
    uintptr_t result = 0;
    ring_.add([&] {
      g_steps = Steps{};
      if (due) set_preemption_pending();
      result = step_through(function, a, b, c);
      clear_preemption_pending();
    });
    ring_.run();
    EXPECT_GT(g_steps.preemption_disabled, 0u) << function;
    EXPECT_EQ(g_steps.could_be_left, 0u) << function << ": " << name_of(g_steps.could_be_left);
    EXPECT_EQ(g_honoured, 0) << function;
    return result;
  }

 private:
  struct sigaction before_ {};
};

TEST_F(CallersByStep, no_instruction_between_libc_and_its_allocator_can_be_left) {
  for (const bool due : {false, true}) {
    const uintptr_t copy = expect_never_left(due, "strdup", address("a text"));
    EXPECT_STREQ(reinterpret_cast<const char*>(copy), "a text");
    free(reinterpret_cast<void*>(copy));
    const char* variable = due ? "RUBATO_TEST_OF_DUE_ONES" : "RUBATO_TEST_OF_OTHERS";
    expect_never_left(due, "setenv", address(variable), address("x"), 1);
    char* line = nullptr;
    size_t bytes = 0;
    char text[] = "a line\n";
    FILE* file = fmemopen(text, sizeof(text), "r");
    expect_never_left(due, "getline", address(&line), address(&bytes), address(file));
    fclose(file);
    free(line);
  }
}

#endif

}  // namespace
}  // namespace rubato
