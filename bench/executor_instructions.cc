// SPDX-License-Identifier: Apache-2.0
//
// What executor_instructions.py counts the instructions of: the steps of a task's life in an
// executor that lives in this program's loop, each in a function of its own, so that callgrind can
// tell them apart. The program has one thread and waits for nothing.
//
//   executor_instructions BATCHES      prints the number of tasks, yields and messages
#include <rubato/executor.h>
#include <rubato/wait.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "datapath/push_list.h"

namespace {

constexpr int kBatch = 64;
constexpr int kWaits = 64;  // of a task
constexpr int64_t kLong = 1'000'000'000;

struct Node {
  Node* next_in_list = nullptr;
};

int64_t ended = 0;

int nothing(void*) { return RUBATO_OK; }
void count_end(void*, int, int64_t) { ++ended; }

int yields(void*) {
  for (int i = 0; i < kWaits; ++i) rubato_yield();
  return RUBATO_OK;
}

// Until nothing is to be run.
inline void run_all(rubato_executor* executor) {
  while (rubato_executor_run(executor, kLong) == RUBATO_LOOP_MORE) continue;
}

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "executor_instructions: %s\n", what);
  std::exit(1);
}

}  // namespace

// Their names are what callgrind looks for.
extern "C" {

[[gnu::noinline]] void count_push(rubato::PushList<Node>& list, Node* nodes) {
  for (int i = 0; i < kBatch; ++i) list.push(nodes[i]);
}

[[gnu::noinline]] void count_submit(rubato_executor* executor) {
  for (int i = 0; i < kBatch; ++i) {
    if (rubato_executor_submit(executor, nullptr, nothing, count_end, nullptr) != RUBATO_OK) {
      fail("a task was refused");
    }
  }
}

[[gnu::noinline]] void count_run(rubato_executor* executor) { run_all(executor); }
[[gnu::noinline]] void count_yields(rubato_executor* executor) { run_all(executor); }
}

int main(int count, char** arguments) {
  const int batches = count == 2 ? std::atoi(arguments[1]) : 0;
  if (batches < 1) fail("usage: executor_instructions BATCHES");
  rubato_options scheduler;
  rubato_options_init(&scheduler, sizeof scheduler);
  scheduler.workers = 1;
  rubato_executor_options options;
  rubato_executor_options_init(&options, sizeof options);
  options.scheduler = &scheduler;
  options.in_loop = 1;
  rubato_error error;
  rubato_executor* const executor = rubato_executor_create(&options, &error);
  if (executor == nullptr) fail(error.text);

  rubato::PushList<Node> list;
  Node nodes[kBatch];
  for (int batch = 0; batch < batches; ++batch) {
    count_push(list, nodes);
    static_cast<void>(list.take_all_in_order());
    for (Node& node : nodes) node.next_in_list = nullptr;
    count_submit(executor);
    count_run(executor);
    for (int i = 0; i < 2; ++i) {
      rubato_executor_submit(executor, nullptr, yields, count_end, nullptr);
    }
    count_yields(executor);
  }
  if (ended != int64_t{batches} * (kBatch + 2)) fail("not every task has ended");
  std::printf("{\"tasks\": %d, \"yields\": %d}\n", batches * kBatch, batches * 2 * kWaits);
  rubato_executor_destroy(executor);
}
