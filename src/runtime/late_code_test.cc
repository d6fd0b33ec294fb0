// SPDX-License-Identifier: Apache-2.0
//
// Code that is loaded while a server runs, by a thread that knows nothing of the server.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "runtime/testing/letter_app.h"

namespace rubato {
namespace {

using testing::LetterServer;

class LateCode : public ::testing::TestWithParam<PreemptMechanism> {};
INSTANTIATE_TEST_SUITE_P(By, LateCode,
                         ::testing::Values(PreemptMechanism::kSignal, PreemptMechanism::kTimer),
                         [](const auto& by) { return std::string(to_string(by.param)); });

// Unknown code is not left half-way; the map must come to know the code, otherwise the test hangs.
TEST_P(LateCode, is_interrupted_though_nobody_announced_it) {
  if (const Status has = available(GetParam()); !has.ok()) GTEST_SKIP() << has.error();
  LetterServer server("synergy");
  server.options.preempt = GetParam();
  server.options.policy_settings = {{"fixed_quantum", "300us"}};
  void (*wait)(const volatile int*) = nullptr;
  volatile int stop = 0;
  std::atomic<bool> runs{false};
  server.app.on('L') = [&](Request&) {
    runs = true;
    wait(&stop);
  };
  server.app.on('S') = [&](Request&) { stop = 1; };
  server.start();
  void* object = dlopen(RUBATO_LATE_OBJECT, RTLD_NOW);
  ASSERT_NE(object, nullptr) << dlerror();
  wait = reinterpret_cast<decltype(wait)>(dlsym(object, "rubato_late_object_wait"));
  ASSERT_NE(wait, nullptr);
  const uint64_t slow = server.occupy("L\n", runs);
  const uint64_t fast = server.connect();
  EXPECT_EQ(server.call(fast, "S\n"), "S\n");
  EXPECT_EQ(server.receive(slow, 2), "L\n");
  EXPECT_TRUE(server.stop());
  dlclose(object);
}

}  // namespace
}  // namespace rubato
