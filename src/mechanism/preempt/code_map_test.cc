// SPDX-License-Identifier: Apache-2.0
#include "mechanism/preempt/code_map.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/auxv.h>

#include <cstdlib>
#include <vector>

namespace rubato {
namespace {

uintptr_t address_of(const char* symbol) {
  return reinterpret_cast<uintptr_t>(dlsym(RTLD_DEFAULT, symbol));
}

[[gnu::noinline]] int code_of_the_program(int x) { return x * 3 + 1; }

class CodeMap : public ::testing::Test {
 protected:
  void SetUp() override {
    unsetenv("RUBATO_UNSAFE_CODE");
    const Status built = code_map_build();
    ASSERT_TRUE(built.ok()) << built.error();
  }
};

TEST_F(CodeMap, the_c_library_the_loader_and_the_cpp_runtime_are_unsafe) {
  for (const char* symbol : {"strlen", "qsort", "fwrite", "__cxa_throw", "_Unwind_RaiseException",
                             "__tls_get_addr", "__libc_malloc"}) {
    const uintptr_t code = address_of(symbol);
    ASSERT_NE(code, 0u) << symbol;
    EXPECT_EQ(code_kind(code), CodeKind::kUnsafe) << symbol;
    EXPECT_TRUE(code_is_in_unsafe_object(code)) << symbol;
  }
}

TEST_F(CodeMap, the_program_is_safe) {
  const auto code = reinterpret_cast<uintptr_t>(&code_of_the_program);
  EXPECT_EQ(code_kind(code), CodeKind::kSafe);
  EXPECT_FALSE(code_is_in_unsafe_object(code));
}

TEST_F(CodeMap, the_vdso_is_unsafe) {
  const uintptr_t vdso = getauxval(AT_SYSINFO_EHDR);
  if (vdso == 0) GTEST_SKIP() << "this kernel maps no vdso";
  EXPECT_EQ(code_kind(vdso + 0x400), CodeKind::kUnsafe);
}

TEST_F(CodeMap, code_of_no_object_is_taken_for_unsafe) {
  const std::vector<int> heap(100);
  EXPECT_EQ(code_kind(reinterpret_cast<uintptr_t>(heap.data())), CodeKind::kUnknown);
  EXPECT_TRUE(code_is_in_unsafe_object(reinterpret_cast<uintptr_t>(heap.data())));
  EXPECT_TRUE(code_is_in_unsafe_object(0));
  EXPECT_TRUE(code_is_in_unsafe_object(~uintptr_t{0}));
}

TEST_F(CodeMap, a_late_object_is_known_after_a_refresh_and_forgotten_after_another) {
  void* object = dlopen(RUBATO_LATE_OBJECT, RTLD_NOW);
  ASSERT_NE(object, nullptr) << dlerror();
  const auto code = reinterpret_cast<uintptr_t>(dlsym(object, "rubato_late_object_answer"));
  ASSERT_NE(code, 0u);
  EXPECT_EQ(code_kind(code), CodeKind::kUnknown);
  code_map_refresh();
  EXPECT_EQ(code_kind(code), CodeKind::kSafe);
  ASSERT_EQ(dlclose(object), 0);
  code_map_refresh();
  EXPECT_EQ(code_kind(code), CodeKind::kUnknown);
}

TEST_F(CodeMap, a_late_object_is_known_when_it_is_asked_for) {
  void* object = dlopen(RUBATO_LATE_OBJECT, RTLD_NOW);
  ASSERT_NE(object, nullptr) << dlerror();
  const auto code = reinterpret_cast<uintptr_t>(dlsym(object, "rubato_late_object_answer"));
  EXPECT_EQ(code_kind(code), CodeKind::kUnknown);
  EXPECT_FALSE(code_is_in_unsafe_object(code));
  ASSERT_EQ(dlclose(object), 0);
  code_map_refresh();
}

TEST_F(CodeMap, an_object_named_by_the_user_is_unsafe) {
  setenv("RUBATO_UNSAFE_CODE", "libelsewhere,late_object,", 1);
  void* object = dlopen(RUBATO_LATE_OBJECT, RTLD_NOW);
  ASSERT_NE(object, nullptr) << dlerror();
  const auto code = reinterpret_cast<uintptr_t>(dlsym(object, "rubato_late_object_answer"));
  code_map_refresh();
  EXPECT_EQ(code_kind(code), CodeKind::kUnsafe);
  ASSERT_EQ(dlclose(object), 0);
  unsetenv("RUBATO_UNSAFE_CODE");
  ASSERT_TRUE(code_map_build().ok());
}

TEST(UnsafeObjects, are_told_by_their_file_name) {
  EXPECT_TRUE(is_unsafe_object("/lib/x86_64-linux-gnu/libc.so.6"));
  EXPECT_TRUE(is_unsafe_object("/lib64/ld-linux-x86-64.so.2"));
  EXPECT_TRUE(is_unsafe_object("libstdc++.so.6.0.30"));
  EXPECT_TRUE(is_unsafe_object("/usr/lib/libjemalloc.so.2"));
  EXPECT_TRUE(is_unsafe_object("linux-vdso.so.1"));
  EXPECT_TRUE(is_unsafe_object("/usr/lib/x86_64-linux-gnu/gconv/UTF-16.so"));
  EXPECT_FALSE(is_unsafe_object(""));  // the program itself
  EXPECT_FALSE(is_unsafe_object("/lib/x86_64-linux-gnu/libm.so.6"));
  EXPECT_FALSE(is_unsafe_object("/opt/libc.so.d/librocksdb.so.7.8"));
  EXPECT_FALSE(is_unsafe_object("libcrypto.so.3"));
  EXPECT_FALSE(is_unsafe_object("libmine.so", ",,libother"));
  EXPECT_TRUE(is_unsafe_object("/opt/libmine.so.1", "libother,libmine"));
}

}  // namespace
}  // namespace rubato
