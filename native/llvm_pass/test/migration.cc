// SPDX-License-Identifier: Apache-2.0
//
// A computation that changes threads at every checkpoint, as a preempted request may: two threads
// resume one context in turn. Thread-locals and errno must be those of the thread that the
// computation is on. Prints "ok" or what was wrong; the status tells too.
#include <ucontext.h>

#include <cerrno>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "mechanism/preempt/checkpoint.h"

thread_local uint64_t mine;

namespace {

constexpr uint64_t kRounds = 20'000;

ucontext_t g_computation;
ucontext_t g_host;
bool g_done = false;
uint64_t g_switches = 0;
uint64_t g_wrong = 0;
int g_turn = 0;
std::mutex g_mutex;
std::condition_variable g_turned;

RUBATO_NO_PREEMPT bool leave() {
  rubato::checkpoint_budget_set(rubato::kCheckpointNever);
  ++g_switches;
  swapcontext(&g_computation, &g_host);
  return false;
}

// Compiled without the pass (see programs_test.py): the present address of errno.
}  // namespace
const void* errno_of_this_thread();
namespace {

__attribute__((noinline)) uint64_t work(uint64_t rounds) {
  uint64_t sum = 0;
  for (uint64_t i = 0; i < rounds; ++i) {
    ++mine;
    if (&errno != errno_of_this_thread()) ++g_wrong;
    sum += i ^ mine % 2;
    if (i % 7 == 0) ++mine;
  }
  return sum;
}

void compute() {
  volatile uint64_t sum = 0;
  for (int i = 0; i < 10; ++i) sum = sum + work(kRounds / 10);
  g_done = true;
  setcontext(&g_host);
}

RUBATO_NO_PREEMPT void host(int me, uint64_t* counted) {
  std::unique_lock lock(g_mutex);
  while (true) {
    g_turned.wait(lock, [&] { return g_turn == me || g_done; });
    if (g_done) break;
    rubato::checkpoint_budget_set(0);
    swapcontext(&g_host, &g_computation);
    rubato::checkpoint_budget_set(rubato::kCheckpointNever);
    g_turn = 1 - me;
    g_turned.notify_all();
  }
  *counted = mine;
}

}  // namespace

int main() {
  constexpr size_t kStackBytes = 256 * 1024;
  getcontext(&g_computation);
  g_computation.uc_stack.ss_sp = std::malloc(kStackBytes);
  g_computation.uc_stack.ss_size = kStackBytes;
  g_computation.uc_link = nullptr;
  makecontext(&g_computation, &compute, 0);
  rubato::checkpoint_set_handler(&leave);
  uint64_t counted[2] = {};
  std::thread one(host, 0, &counted[0]), two(host, 1, &counted[1]);
  one.join();
  two.join();
  std::free(g_computation.uc_stack.ss_sp);
  const uint64_t expected = kRounds + 10 * ((kRounds / 10 + 6) / 7);
  const bool ok = counted[0] + counted[1] == expected && g_wrong == 0 && counted[0] > 0 &&
                  counted[1] > 0;
  std::printf("%s: counted %llu + %llu of %llu, errno elsewhere %llu times, %llu switches\n",
              ok ? "ok" : "wrong", static_cast<unsigned long long>(counted[0]),
              static_cast<unsigned long long>(counted[1]),
              static_cast<unsigned long long>(expected), static_cast<unsigned long long>(g_wrong),
              static_cast<unsigned long long>(g_switches));
  return ok ? 0 : 1;
}
