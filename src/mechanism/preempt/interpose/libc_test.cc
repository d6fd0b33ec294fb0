// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <link.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <vector>

#include "mechanism/preempt/code_map.h"
#include "mechanism/preempt/interpose/held_locks.h"
#include "mechanism/preempt/interpose/next.h"
#include "mechanism/preempt/interpose/testing/ring.h"
#include "mechanism/preempt/preempt_disable.h"

namespace rubato {
namespace {

using interpose::ForeignReleases;
using interpose::HeldLocks;
using testing::Ring;

int g_honoured = 0;

// A preemption that falls due inside a non-preemptible region is honoured at its end.
class LibcOnFibers : public ::testing::Test {
 protected:
  void SetUp() override {
    g_honoured = 0;
    set_pending_preemption_handler([] { ++g_honoured; });
    ASSERT_TRUE(code_map_build().ok());
  }
  void TearDown() override {
    clear_preemption_pending();
    set_pending_preemption_handler(nullptr);
  }
  Ring ring_;
};

template <class Call>
int honoured_by(Call call) {
  g_honoured = 0;
  set_preemption_pending();
  call();
  clear_preemption_pending();
  return g_honoured;
}

TEST_F(LibcOnFibers, what_falls_due_in_the_allocator_is_honoured_at_its_end) {
  ring_.add([] {
    void* memory = nullptr;
    EXPECT_EQ(honoured_by([&] { memory = malloc(100); }), 1);
    EXPECT_EQ(honoured_by([&] { memory = realloc(memory, 1000); }), 1);
    EXPECT_EQ(honoured_by([&] { free(memory); }), 1);
    EXPECT_EQ(honoured_by([&] { memory = calloc(10, 10); }), 1);
    free(memory);
    EXPECT_EQ(honoured_by([&] { EXPECT_EQ(posix_memalign(&memory, 64, 10), 0); }), 1);
    free(memory);
    EXPECT_EQ(honoured_by([&] { memory = aligned_alloc(64, 64); }), 1);
    free(memory);
    EXPECT_EQ(honoured_by([&] { memory = memalign(64, 64); }), 1);
    free(memory);
  });
  ring_.run();
}

TEST_F(LibcOnFibers, the_allocator_is_asked_for_its_state_in_a_region) {
  ring_.add([] {
    EXPECT_EQ(honoured_by([] { malloc_trim(0); }), 1);
    EXPECT_EQ(honoured_by([] { EXPECT_GT(mallinfo2().uordblks, 0u); }), 1);
    EXPECT_EQ(honoured_by([] { mallopt(M_TOP_PAD, 128 * 1024); }), 1);
    FILE* const nowhere = fopen("/dev/null", "w");
    ASSERT_NE(nowhere, nullptr);
    EXPECT_EQ(honoured_by([&] { EXPECT_EQ(malloc_info(0, nowhere), 0); }), 1);
    fclose(nowhere);
  });
  ring_.run();
}

// The loader that is asked for them may be locked by a request that has been left.
TEST_F(LibcOnFibers, functions_of_libc_are_known_before_they_are_called) {
  ring_.add([] {
    interpose::find_all([](const char* name) -> void* {
      ADD_FAILURE() << name;
      return nullptr;
    });
  });
  ring_.run();
}

TEST_F(LibcOnFibers, errno_outlives_what_happens_at_the_end_of_a_section) {
  set_pending_preemption_handler([] { errno = EDOM; });
  ring_.add([] {
    errno = ENOENT;
    set_preemption_pending();
    free(malloc(10));
    EXPECT_EQ(errno, ENOENT);
    std::mutex mutex;
    set_preemption_pending();
    mutex.lock();
    mutex.unlock();
    EXPECT_EQ(errno, ENOENT);
  });
  ring_.run();
}

TEST_F(LibcOnFibers, a_lock_is_honoured_at_its_release_and_not_before) {
  ring_.add([] {
    std::mutex mutex;
    mutex.lock();
    set_preemption_pending();
    free(malloc(10));
    EXPECT_EQ(g_honoured, 0);
    mutex.unlock();
    EXPECT_EQ(g_honoured, 1);
  });
  ring_.run();
}

TEST_F(LibcOnFibers, callbacks_under_a_lock_of_libc_are_sections) {
  ring_.add([] {
    const auto depth_here = [](dl_phdr_info*, size_t, void* depth) {
      *static_cast<uint32_t*>(depth) = preempt_disable_depth();
      return 1;
    };
    uint32_t depth = 0;
    EXPECT_EQ(dl_iterate_phdr(depth_here, &depth), 1);
    EXPECT_EQ(depth, 1u);
    flockfile(stderr);
    flockfile(stderr);
    EXPECT_EQ(preempt_disable_depth(), 2u);
    funlockfile(stderr);
    funlockfile(stderr);
    EXPECT_EQ(preempt_disable_depth(), 0u);
  });
  ring_.run();
}

TEST_F(LibcOnFibers, an_object_loaded_by_a_fiber_is_known_at_once) {
  ring_.add([] {
    void* object = dlmopen(LM_ID_BASE, RUBATO_LATE_OBJECT, RTLD_NOW);
    ASSERT_NE(object, nullptr) << dlerror();
    EXPECT_EQ(dlopen(RUBATO_LATE_OBJECT, RTLD_NOW), object);
    EXPECT_EQ(dlclose(object), 0);
    const auto code = reinterpret_cast<uintptr_t>(dlsym(object, "rubato_late_object_answer"));
    EXPECT_EQ(code_kind(code), CodeKind::kSafe);
    EXPECT_EQ(dlclose(object), 0);
    EXPECT_EQ(code_kind(code), CodeKind::kUnknown);
    EXPECT_EQ(preempt_disable_depth(), 0u);
  });
  ring_.run();
}

// The library that the test looks for lies in a folder that only its own search path names.
TEST(LibcOffFibers, dlopen_sees_its_true_caller) {
  void* opener = dlopen(RUBATO_OPENER, RTLD_NOW);
  ASSERT_NE(opener, nullptr) << dlerror();
  auto* open_it = reinterpret_cast<void* (*)()>(dlsym(opener, "rubato_open_by_own_path"));
  ASSERT_NE(open_it, nullptr);
  void* found = open_it();
  EXPECT_NE(found, nullptr) << dlerror();
  if (found != nullptr) dlclose(found);
  dlclose(opener);
}

TEST_F(LibcOnFibers, the_child_of_a_fork_is_a_plain_thread) {
  pid_t child = -1;
  ring_.add([&] {
    std::mutex mutex;
    const std::lock_guard lock(mutex);
    child = fork();
    if (child == 0) {
      set_pending_preemption_handler([] { _exit(9); });
      set_preemption_pending();
      mutex.unlock();
      free(malloc(10));
      std::thread([] { free(malloc(10)); }).join();
      _exit(0);
    }
    EXPECT_EQ(preempt_disable_depth(), 1u);
  });
  ring_.run();
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(LibcOffFibers, plain_threads_open_no_section) {
  std::mutex mutex;
  const std::lock_guard lock(mutex);
  EXPECT_EQ(preempt_disable_depth(), 0u);
  free(malloc(10));
}

// Fibers that share their thread's TLS block.
class SharedTls : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(interposers_attach().ok());
    interposers_mark_thread(ThreadKind::kSharesTls);
  }
  void TearDown() override {
    interposers_mark_thread(ThreadKind::kPlain);
    EXPECT_EQ(preempt_disable_depth(), 0u);
    set_yield_for_lock(nullptr);
  }
};

TEST_F(SharedTls, a_lock_is_a_section_and_never_yields) {
  static bool yielded = false;
  set_yield_for_lock([] { return yielded = true; });
  std::mutex mutex;
  std::atomic<bool> taken{false};
  std::thread holder([&] {
    const std::lock_guard lock(mutex);
    taken = true;
    for (int i = 0; i < 2000; ++i) std::this_thread::yield();  // the other blocks meanwhile
  });
  while (!taken) std::this_thread::yield();
  mutex.lock();
  EXPECT_EQ(preempt_disable_depth(), 1u);
  mutex.unlock();
  holder.join();
  EXPECT_FALSE(yielded);
}

TEST_F(SharedTls, every_kind_of_lock_opens_and_closes_a_section) {
  std::recursive_timed_mutex recursive;
  EXPECT_TRUE(recursive.try_lock_for(std::chrono::milliseconds(1)));
  recursive.lock();
  EXPECT_EQ(preempt_disable_depth(), 2u);
  recursive.unlock();
  recursive.unlock();
  std::shared_timed_mutex shared;
  shared.lock_shared();
  EXPECT_EQ(preempt_disable_depth(), 1u);
  EXPECT_FALSE(shared.try_lock_for(std::chrono::milliseconds(1)));
  shared.unlock_shared();
  std::unique_lock lock(shared);
  EXPECT_EQ(preempt_disable_depth(), 1u);
  lock.unlock();
  std::once_flag once;
  std::call_once(once, [] { EXPECT_EQ(preempt_disable_depth(), 1u); });
  std::mutex mutex;
  std::condition_variable never;
  std::unique_lock waiting(mutex);
  EXPECT_EQ(never.wait_for(waiting, std::chrono::milliseconds(1)), std::cv_status::timeout);
  EXPECT_EQ(preempt_disable_depth(), 1u);
}

class HeldLocksTest : public ::testing::Test {
 protected:
  HeldLocks held_;
  ForeignReleases foreign_;
  int a_ = 0;
  int b_ = 0;
};

TEST_F(HeldLocksTest, the_same_lock_counts_as_often_as_it_was_taken) {
  held_.add(&a_, 0);
  held_.add(&a_, 0);
  EXPECT_TRUE(held_.remove(&a_));
  EXPECT_TRUE(held_.holds(&a_));
  EXPECT_TRUE(held_.remove(&a_));
  EXPECT_FALSE(held_.holds(&a_));
  EXPECT_FALSE(held_.remove(&a_));
}

TEST_F(HeldLocksTest, what_was_released_elsewhere_is_forgotten_once) {
  held_.add(&a_, foreign_.latest());
  held_.add(&b_, foreign_.latest());
  foreign_.add(&a_);
  EXPECT_EQ(held_.reconcile(foreign_), 1u);
  EXPECT_EQ(held_.reconcile(foreign_), 0u);
  EXPECT_FALSE(held_.holds(&a_));
  EXPECT_TRUE(held_.holds(&b_));
}

TEST_F(HeldLocksTest, a_lock_taken_again_after_a_foreign_release_is_held) {
  foreign_.add(&a_);
  held_.add(&a_, foreign_.latest());
  EXPECT_EQ(held_.reconcile(foreign_), 0u);
  EXPECT_TRUE(held_.holds(&a_));
}

}  // namespace
}  // namespace rubato
