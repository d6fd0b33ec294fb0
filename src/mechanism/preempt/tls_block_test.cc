// SPDX-License-Identifier: Apache-2.0
#include "mechanism/preempt/tls_block.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>

#include <cerrno>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>

#include "mechanism/clock/clock.h"
#include "mechanism/cpu/pin.h"

namespace rubato {
namespace {

thread_local int t_value = 7;
int g_destroyed = 0;

struct Counted {
  ~Counted() { ++g_destroyed; }
  int value = 1;
};
thread_local Counted t_counted;

// Each of these looks thread-local storage up afresh.
[[gnu::noinline]] int value() { asm volatile(""); return t_value; }
[[gnu::noinline]] void set_value(int to) { asm volatile(""); t_value = to; }
[[gnu::noinline]] void touch_counted() { asm volatile(""); t_counted.value = 2; }
[[gnu::noinline]] int error_number() { asm volatile(""); return errno; }
[[gnu::noinline]] void set_error_number(int to) { asm volatile(""); errno = to; }
[[gnu::noinline]] pthread_t self() { asm volatile(""); return pthread_self(); }

struct TlsBlockTest : testing::Test {
  void SetUp() override {
    if (const Status good = TlsBlock::available(); !good.ok()) GTEST_SKIP() << good.error();
    other = TlsBlock::make();
    ASSERT_NE(other, nullptr);
    own = thread_pointer();
  }
  template <class F>
  void as_other(F&& f) {
    set_thread_pointer(other->pointer());
    f();
    set_thread_pointer(own);
  }
  std::unique_ptr<TlsBlock> other;
  uintptr_t own = 0;
};

TEST_F(TlsBlockTest, thread_locals_and_errno_are_its_own_and_wait_for_it) {
  set_value(1);
  set_error_number(EDOM);
  as_other([] {
    EXPECT_EQ(value(), 7);
    set_value(2);
    set_error_number(ERANGE);
  });
  EXPECT_EQ(value(), 1);
  EXPECT_EQ(error_number(), EDOM);
  as_other([] {
    EXPECT_EQ(value(), 2);
    EXPECT_EQ(error_number(), ERANGE);
  });
}

TEST_F(TlsBlockTest, goes_with_whoever_takes_it) {
  as_other([] { set_value(41); });
  std::thread([this] {
    const uintptr_t mine = thread_pointer();
    set_thread_pointer(other->pointer());
    EXPECT_EQ(value(), 41);
    set_value(42);
    set_thread_pointer(mine);
    EXPECT_EQ(value(), 7);
  }).join();
  as_other([] { EXPECT_EQ(value(), 42); });
}

TEST_F(TlsBlockTest, library_code_works_under_it) {
  const pthread_t me = self();
  as_other([me] {
    EXPECT_EQ(pthread_equal(self(), me), 0);
    std::recursive_mutex mutex;
    const std::scoped_lock once(mutex);
    const std::scoped_lock twice(mutex);
    std::string caught;
    try {
      throw std::runtime_error("thrown as another");
    } catch (const std::exception& error) {
      std::ostringstream out;
      out << error.what() << ' ' << 4711;
      caught = out.str();
    }
    EXPECT_EQ(caught, "thrown as another 4711");
    std::thread([] { EXPECT_EQ(value(), 7); }).join();
  });
  EXPECT_NE(pthread_equal(self(), me), 0);
}

TEST_F(TlsBlockTest, cpu_number_is_the_workers) {
  for (const uint32_t cpu : allowed_cpus()) {
    std::thread([this, cpu] {
      if (!pin_this_thread(cpu).ok()) return;
      const uintptr_t mine = thread_pointer();
      set_thread_pointer(other->pointer());
      EXPECT_EQ(sched_getcpu(), static_cast<int>(cpu));
      set_thread_pointer(mine);
    }).join();
  }
}

TEST_F(TlsBlockTest, thread_locals_are_destroyed_with_it) {
  g_destroyed = 0;
  as_other([] { touch_counted(); });
  EXPECT_EQ(g_destroyed, 0);
  other.reset();
  EXPECT_EQ(g_destroyed, 1);
}

int g_ended_with = 0;

TEST_F(TlsBlockTest, end_is_announced_to_its_owner_as_itself) {
  other = TlsBlock::make([] { g_ended_with = value(); });
  ASSERT_NE(other, nullptr);
  as_other([] { set_value(99); });
  other.reset();
  EXPECT_EQ(g_ended_with, 99);
}

TEST_F(TlsBlockTest, many_can_live_at_once) {
  std::vector<std::unique_ptr<TlsBlock>> many;
  for (int i = 0; i < 200; ++i) {
    many.push_back(TlsBlock::make());
    ASSERT_NE(many.back(), nullptr);
  }
  for (int i = 0; i < 200; ++i) {
    set_thread_pointer(many[static_cast<size_t>(i)]->pointer());
    set_value(i);
  }
  for (int i = 0; i < 200; ++i) {
    set_thread_pointer(many[static_cast<size_t>(i)]->pointer());
    const int seen = value();
    set_thread_pointer(own);
    EXPECT_EQ(seen, i);
  }
}

}  // namespace
}  // namespace rubato
